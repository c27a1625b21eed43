package dev.tandem.engine.observe;

import java.io.IOException;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * What ran when, lane by lane, as Chrome's trace events, which Perfetto opens. Recording an event writes four numbers
 * into a ring: the last ones are kept.
 *
 * <p>Owned by: each lane by the one thread that records in it; any thread may {@link #write}, which leaves out what is
 * overwritten meanwhile.
 */
public final class Timeline {
    /** Kinds of events; the detail is a step, or (layer, row) as {@link #tier} has it. */
    public enum Kind {
        /** The scheduler decides a step. */
        PLAN,
        /** A step, from its submission to its result. */
        EXECUTE,
        /** A step on the GPU. */
        GPU_STEP,
        /** One layer of it, from its attention to the next layer's. */
        GPU_LAYER,
        /** The GPU waits for one layer's attention of a sub-batch's host tokens. */
        GPU_WAIT,
        /** One row's attention in one layer on the CPU. */
        CPU_ATTENTION
    }

    /** Records nothing. */
    public static final Timeline OFF = new Timeline(0);

    private final int capacity;
    /** Slots of a lane: a power of two, of which one may be being written. */
    private final int slots;

    private final List<Lane> lanes = new CopyOnWriteArrayList<>();

    /** @param capacity events a lane keeps; 0 for none */
    public Timeline(int capacity) {
        this.capacity = capacity;
        this.slots = capacity == 0 ? 0 : Integer.highestOneBit(2 * capacity);
    }

    /** One row of the picture. */
    public static final class Lane {
        private final String name;
        private final int mask;
        private final Kind[] kinds;
        /** [events][3] begin, end, detail */
        private final long[] numbers;

        private volatile long count;

        private Lane(String name, int slots) {
            this.name = name;
            this.mask = slots - 1;
            this.kinds = new Kind[slots];
            this.numbers = new long[3 * slots];
        }

        /** Both times in nanoseconds of the engine's clock. */
        public void add(Kind kind, long begin, long end, long detail) {
            if (kinds.length == 0) {
                return;
            }
            int at = (int) (count & mask);
            VarHandle.storeStoreFence(); // whoever sees a part of this event sees that the one before was counted
            kinds[at] = kind;
            numbers[3 * at] = begin;
            numbers[3 * at + 1] = end;
            numbers[3 * at + 2] = detail;
            count = count + 1;
        }
    }

    public Lane lane(String name) {
        Lane lane = new Lane(name, slots);
        if (capacity > 0) {
            lanes.add(lane);
        }
        return lane;
    }

    /** A detail that names a layer and a sequence. */
    public static long layerAndSequence(int layer, long sequence) {
        return sequence << 16 | layer;
    }

    /** @throws IOException as {@code out} does */
    public void write(Appendable out) throws IOException {
        out.append("{\"traceEvents\":[");
        String separator = "";
        List<Lane> all = new ArrayList<>(lanes);
        for (int lane = 0; lane < all.size(); lane++) {
            out.append(separator)
                    .append(String.format(
                            Locale.ROOT,
                            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
                            lane,
                            all.get(lane).name));
            separator = ",\n";
            write(all.get(lane), lane, out);
        }
        out.append("]}\n");
    }

    private void write(Lane lane, int number, Appendable out) throws IOException {
        long until = lane.count;
        for (long event = Math.max(0, until - capacity); event < until; event++) {
            int at = (int) (event & lane.mask);
            Kind kind = lane.kinds[at];
            long begin = lane.numbers[3 * at];
            long end = lane.numbers[3 * at + 1];
            long detail = lane.numbers[3 * at + 2];
            VarHandle.loadLoadFence();
            if (lane.count - event >= slots) {
                continue; // the next event takes its slot, and may have begun to
            }
            out.append(String.format(
                    Locale.ROOT,
                    ",%n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{%s}}",
                    kind.name().toLowerCase(Locale.ROOT).replace('_', ' '),
                    number,
                    begin / 1e3,
                    (end - begin) / 1e3,
                    arguments(kind, detail)));
        }
    }

    private static String arguments(Kind kind, long detail) {
        return switch (kind) {
            case PLAN, EXECUTE, GPU_STEP -> "\"step\":" + detail;
            case GPU_LAYER -> "\"layer\":" + detail;
            case GPU_WAIT -> "\"layer\":" + (detail & 0xffff) + ",\"sub-batch\":" + (detail >> 16);
            case CPU_ATTENTION -> "\"layer\":" + (detail & 0xffff) + ",\"sequence\":" + (detail >> 16);
        };
    }
}
