package dev.tandem.engine.observe;

import java.io.IOException;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * Records what ran when, as Chrome trace events, which Perfetto opens.
 *
 * <p>Each lane is a ring of events that keeps the last ones. Its protocol:
 *
 * <ul>
 *   <li>The lane's thread writes an event into its slot, then increments {@code count}.
 *   <li>A reader reads {@code count}, copies an event, then reads {@code count} again. It drops the event when its slot
 *       may have been written meanwhile.
 *   <li>The writer's store-store fence orders the increment before the next event's fields. The reader's load-load
 *       fence orders the fields before the second read of {@code count}.
 * </ul>
 *
 * <p>Owned by: each lane by the one thread that records in it; any thread may {@link #write}.
 */
public final class Timeline {
    /** Kinds of events. Each has a detail: a step, a layer, or a pair made by {@link #layerAndSequence}. */
    public enum Kind {
        /** The scheduler plans a step. */
        PLAN,
        /** A step, from its submit to its result. */
        EXECUTE,
        /** A step on the GPU. */
        GPU_STEP,
        /** One layer of a step on the GPU, from its attention to the next layer's. */
        GPU_LAYER,
        /** The GPU waits for the CPU's attention of one layer and sub-batch. */
        GPU_WAIT,
        /** The CPU computes the attention of one host token in one layer. */
        CPU_ATTENTION
    }

    /** Records nothing. */
    public static final Timeline OFF = new Timeline(0);

    private final int capacity;
    /** Slots of a lane: a power of two above the capacity, because the writer may be writing one. */
    private final int slots;

    private final List<Lane> lanes = new CopyOnWriteArrayList<>();

    /**
     * Creates a timeline without lanes.
     *
     * @param capacity events that each lane keeps; 0 records nothing
     */
    public Timeline(int capacity) {
        this.capacity = capacity;
        this.slots = capacity == 0 ? 0 : Integer.highestOneBit(2 * capacity);
    }

    /** The events of one thread or device, shown as one line. */
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

        /** Records an event; both times are in nanoseconds of the engine's clock. */
        public void add(Kind kind, long begin, long end, long detail) {
            if (kinds.length == 0) {
                return;
            }
            long before = count;
            int at = (int) (before & mask);
            VarHandle.storeStoreFence(); // a reader that sees a field of this event also sees the last increment of
            // count
            kinds[at] = kind;
            numbers[3 * at] = begin;
            numbers[3 * at + 1] = end;
            numbers[3 * at + 2] = detail;
            count = before + 1;
        }
    }

    /** Adds a lane. */
    public Lane lane(String name) {
        Lane lane = new Lane(name, slots);
        if (capacity > 0) {
            lanes.add(lane);
        }
        return lane;
    }

    /** The detail of an event that concerns a layer and a sequence. */
    public static long layerAndSequence(int layer, long sequence) {
        return sequence << 16 | layer;
    }

    /**
     * Writes all events as one JSON object.
     *
     * @throws IOException as {@code out} does
     */
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
                continue; // the writer may have begun to write the slot again
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
