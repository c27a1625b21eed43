package dev.tandem.cpu.probe;

import dev.tandem.cpu.decode.AttentionWorkers;
import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeTask;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.topology.NativeMemory;
import dev.tandem.engine.clock.Clock;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Decode attention of one layer over random KV in shuffled blocks, and plain reads of the same blocks in turn with it.
 * Closing it frees the memory.
 *
 * <p>Owned by: the thread that measures.
 */
public final class AttentionBenchmark implements AutoCloseable {
    /**
     * Medians.
     *
     * @param sequential the better of the reads that go through a block from end to end, 10^9 bytes of KV a second
     * @param roof the best of all reads
     * @param arithmetic what the multiply-adds alone would allow the Vector API, of KV that is in no memory
     * @param micros of one round, hand-over included, with workers that spin
     * @param pinned whether each thread had a core of its own
     */
    public record Result(double sequential, double roof, double arithmetic, double kernel, double micros, boolean pinned) {
        public double share() {
            return kernel / roof;
        }

        public double shareOfSequential() {
            return kernel / sequential;
        }
    }

    private static final long WARM_UP_NANOS = 1_500_000_000;
    private static final int SPINNING_ROUNDS = 20_000;

    private final Arena arena = Arena.ofShared();
    private final BlockFormat format;
    private final Clock clock;
    private final int rounds;
    private final List<DecodeTask> tasks = new ArrayList<>();
    private final double bytes;

    /** @param rounds of roof and kernel each */
    public AttentionBenchmark(BlockFormat format, int heads, int batch, int context, int rounds, long seed, Clock clock) {
        this.format = format;
        this.clock = clock;
        this.rounds = rounds;
        SplittableRandom random = new SplittableRandom(seed);
        int perRow = (context + BlockFormat.TOKENS - 1) / BlockFormat.TOKENS;
        long blocks = (long) batch * perRow;
        MemorySegment kv = NativeMemory.allocateHuge(blocks * format.blockBytes(), "the KV of the benchmark", arena);
        long[] addresses = fill(kv, (int) blocks, random);
        long row = (long) heads * format.headDim() * format.type().bytes();
        MemorySegment q = arena.allocate(batch * row, 64);
        fill(q.address(), batch * heads * format.headDim(), random);
        MemorySegment out = arena.allocate((long) batch * heads * format.headDim() * Float.BYTES, 64);
        for (int i = 0; i < batch; i++) {
            DecodeTask task = new DecodeTask();
            long[] own = Arrays.copyOfRange(addresses, i * perRow, (i + 1) * perRow);
            task.set(q.address() + i * row, 0, 0, own, context, out.address() + (long) i * heads * format.headDim() * Float.BYTES);
            tasks.add(task);
        }
        this.bytes = 2.0 * batch * context * format.kvHeads() * format.headDim() * format.type().bytes();
    }

    /** One block of random values, copied everywhere; the addresses are shuffled. */
    private long[] fill(MemorySegment kv, int blocks, SplittableRandom random) {
        fill(kv.address(), (int) (format.blockBytes() / format.type().bytes()), random);
        long[] addresses = new long[blocks];
        for (int i = 0; i < blocks; i++) {
            addresses[i] = kv.address() + i * format.blockBytes();
            if (i > 0) {
                MemorySegment.copy(kv, 0, kv, i * format.blockBytes(), format.blockBytes());
            }
        }
        for (int i = blocks - 1; i > 0; i--) {
            int other = random.nextInt(i + 1);
            long swap = addresses[i];
            addresses[i] = addresses[other];
            addresses[other] = swap;
        }
        return addresses;
    }

    private void fill(long address, int count, SplittableRandom random) {
        for (int i = 0; i < count; i++) {
            format.store(address + (long) i * format.type().bytes(), (float) (2 * random.nextDouble() - 1));
        }
    }

    /** Reads and the kernel in turn, each on workers of its own that are bound to the same cores. */
    public Result measure(PagedDecodeAttention attention, List<RoofReader> readers, int threads) {
        List<AttentionWorkers> all = new ArrayList<>();
        try {
            for (RoofReader reader : readers) {
                all.add(new AttentionWorkers(reader, threads, true, 0, tasks.size(), tasks.getFirst().context()));
            }
            all.add(new AttentionWorkers(attention, threads, true, 0, tasks.size(), tasks.getFirst().context()));
            double[][] rates = new double[all.size()][rounds];
            all.forEach(this::warmUp);
            for (int round = 0; round < rounds; round++) {
                for (int i = 0; i < all.size(); i++) {
                    rates[i][round] = rate(all.get(i));
                }
            }
            double roof = 0;
            double sequential = 0;
            double arithmetic = 0;
            for (int i = 0; i < readers.size(); i++) {
                double rate = median(rates[i]);
                roof = readers.get(i).reads() ? Math.max(roof, rate) : roof;
                arithmetic = readers.get(i).reads() ? arithmetic : rate;
                sequential = readers.get(i).isSequential() ? Math.max(sequential, rate) : sequential;
            }
            return new Result(sequential, roof, arithmetic, median(rates[readers.size()]), micros(all.getLast()), all.getLast().isPinned());
        } finally {
            all.forEach(AttentionWorkers::close);
        }
    }

    /** Until the loops are compiled, and the pages there. */
    private void warmUp(AttentionWorkers workers) {
        long begin = clock.nanos();
        do {
            rate(workers);
        } while (clock.nanos() - begin < WARM_UP_NANOS);
    }

    private double micros(AttentionWorkers workers) {
        double[] times = new double[SPINNING_ROUNDS];
        long end = clock.nanos() + WARM_UP_NANOS;
        workers.beginStep();
        int count = 0;
        while (count < times.length && (count < 3 || clock.nanos() < end)) {
            long begin = clock.nanos();
            tasks.forEach(workers::submit);
            workers.await();
            times[count++] = (clock.nanos() - begin) / 1e3;
        }
        workers.endStep();
        return median(Arrays.copyOf(times, count));
    }

    private static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    private double rate(AttentionWorkers workers) {
        workers.beginStep();
        long begin = clock.nanos();
        tasks.forEach(workers::submit);
        workers.await();
        long nanos = clock.nanos() - begin;
        workers.endStep();
        return bytes / nanos;
    }

    @Override
    public void close() {
        arena.close();
    }
}
