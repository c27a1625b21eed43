package dev.tandem.cuda.tune;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.probe.BandwidthProbe;
import dev.tandem.cpu.topology.CpuTopology;
import dev.tandem.cpu.topology.NativeMemory;
import dev.tandem.cuda.hostattention.HostAttentionQueues;
import dev.tandem.cuda.hostattention.HostAttentionWorkers;
import dev.tandem.cuda.hostattention.HostToken;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvWindow;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.Rope;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * Measures decode attention of one layer over random KV in shuffled blocks, by the same workers that serve
 * ({@link HostAttentionWorkers}). Plain reads of the same blocks take turns with it. The measuring thread stands for
 * the GPU: it asks for every host token's attention and takes the results. Closing it frees the memory.
 *
 * <p>Owned by: the thread that measures.
 */
public final class AttentionBenchmark implements AutoCloseable {
    /**
     * Medians.
     *
     * @param sequential the best of the reads that go through a block from end to end, in 10^9 bytes of KV per second
     * @param peakBandwidth the best of all reads
     * @param arithmetic rate of the Vector API's multiply-adds alone, without reading KV
     * @param micros of one round, hand-over included
     * @param pinned whether each thread had a core of its own
     */
    public record Result(
            double sequential, double peakBandwidth, double arithmetic, double kernel, double micros, boolean pinned) {
        public double fractionOfPeak() {
            return kernel / peakBandwidth;
        }

        public double fractionOfSequentialRead() {
            return kernel / sequential;
        }
    }

    /** Max host tokens measured at a time. */
    public static final int MAX_TOKENS = HostAttentionQueues.MAX;

    /** Longer than any task of a benchmark. */
    private static final long WATCHDOG_NANOS = Duration.ofSeconds(30).toNanos();
    /** Pause between polls for results where workers occupy all cores. */
    private static final long REST_NANOS = 20_000;
    /** The layer measured, which stands for all. */
    private static final int LAYER = 0;
    /** Rounds per result, of which the last counts: the first wakes the workers. */
    private static final int ROUNDS_PER_RESULT = 2;

    private final Arena arena = Arena.ofShared();
    private final BlockFormat format;
    private final Clock clock;
    private final int rounds;
    private final long warmUpNanos;
    private final CpuTopology topology = CpuTopology.find();
    private final ModelConfig config;
    /** Addresses of all host tokens' blocks, token by token. */
    private final long[] blockAddresses;

    private final int batch;
    private final int context;
    private final double bytes;

    /**
     * @param rounds per read and for the kernel
     * @param warmUp time of each before that
     * @throws IllegalArgumentException that names the flag
     */
    public AttentionBenchmark(
            BlockFormat format,
            int heads,
            int batch,
            int context,
            int rounds,
            long seed,
            Duration warmUp,
            Clock clock) {
        if (format.type() == DataType.FLOAT32) {
            throw new IllegalArgumentException("--dtype float32: host KV beside a GPU is bfloat16 or float16");
        }
        if (batch > MAX_TOKENS) {
            throw new IllegalArgumentException("--batch " + batch + " is more than the " + MAX_TOKENS
                    + " host tokens that workers take at a time");
        }
        this.format = format;
        this.clock = clock;
        this.rounds = rounds;
        this.warmUpNanos = warmUp.toNanos();
        SplittableRandom random = new SplittableRandom(seed);
        int blocksPerToken = (context + BlockFormat.TOKENS - 1) / BlockFormat.TOKENS;
        long blocks = (long) batch * blocksPerToken;
        MemorySegment kv = NativeMemory.allocateHuge(blocks * format.blockBytes(), "the KV of the benchmark", arena);
        this.blockAddresses = fill(kv, Math.toIntExact(blocks), random);
        this.batch = batch;
        this.context = context;
        this.config = new ModelConfig(
                "llama",
                heads * format.headDim(),
                1,
                heads,
                format.kvHeads(),
                format.headDim(),
                1,
                1,
                context,
                1e-5,
                Rope.Rotary.plain(format.headDim()),
                true,
                false,
                false,
                List.of(),
                format.type(),
                Set.of());
        this.bytes = 2.0
                * batch
                * context
                * format.kvHeads()
                * format.headDim()
                * format.type().bytes();
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

    /** Workers of one implementation, with queues of their own. */
    private final class Rig implements AutoCloseable {
        private final Arena memory = Arena.ofShared();
        private final HostAttentionQueues queues;
        private final HostAttentionWorkers workers;
        private final boolean coreLeft;
        private final HostToken[] hostTokens = new HostToken[batch];

        Rig(PagedDecodeAttention attention, int threads) {
            int left = Math.clamp(topology.order().size() - threads, 0, HostAttentionWorkers.CORES_LEFT);
            int bytes = format.type().bytes();
            this.queues = new HostAttentionQueues(
                    config,
                    bytes,
                    new HostAttentionQueues.Memory(
                            longs(HostAttentionQueues.MAX),
                            longs(HostAttentionQueues.MAX),
                            memory.allocate(
                                    (long) HostAttentionQueues.MAX * HostAttentionQueues.sentBytes(config, bytes), 64),
                            memory.allocate(
                                    (long) HostAttentionQueues.MAX * HostAttentionQueues.resultBytes(config, bytes),
                                    64),
                            longs(HostAttentionQueues.MAX),
                            longs(HostAttentionQueues.MAX + 1)));
            int width = (config.heads() + 2 * config.kvHeads()) * config.headDim();
            fill(queues.query(0), HostAttentionQueues.MAX * width, new SplittableRandom(1));
            this.coreLeft = left > 0;
            this.workers = new HostAttentionWorkers(
                    queues,
                    new HostAttentionWorkers.Attention(attention, attention, attention),
                    (layer, block) -> blockAddresses[block],
                    KvLayout.of(KvWindow.NONE),
                    config::window,
                    clock,
                    Timeline.OFF,
                    threads,
                    new HostAttentionWorkers.Cores(topology, true, left),
                    WATCHDOG_NANOS);
        }

        private MemorySegment longs(int count) {
            return memory.allocate((long) count * Long.BYTES, 64);
        }

        /** Registers the host tokens, which makes the workers spin. */
        void begin() {
            int blocksPerToken = blockAddresses.length / batch;
            for (int i = 0; i < batch; i++) {
                int first = i * blocksPerToken;
                int[] table = new int[blocksPerToken];
                Arrays.setAll(table, block -> first + block);
                TokenSampler greedy =
                        new TokenSampler(SamplingParams.builder().temperature(0).build(), new int[] {0}, Set.of(), 0);
                hostTokens[i] = queues.admit(new Admission(i, context - 1, 0, table, greedy));
            }
            workers.wake();
        }

        /** Nanoseconds from the first request for attention to the last result. */
        long round() {
            long begin = clock.nanos();
            for (HostToken hostToken : hostTokens) {
                queues.push(LAYER, hostToken.index);
            }
            for (int results = 0; results < batch; ) {
                if (queues.nextResult() >= 0) {
                    results++;
                } else {
                    await();
                }
            }
            return clock.nanos() - begin;
        }

        private void await() {
            HostAttentionQueues.Failure failure = queues.pollFailure();
            if (failure != null) {
                throw new ExecutorException("attention failed: " + failure.cause(), failure.cause());
            }
            if (coreLeft) {
                Thread.onSpinWait();
            } else {
                LockSupport.parkNanos(this, REST_NANOS);
                workers.check().ifPresent(problem -> {
                    throw new ExecutorException(problem);
                });
            }
        }

        /** Ends the host tokens, which makes the workers park. */
        void end() {
            for (HostToken hostToken : hostTokens) {
                queues.end(hostToken);
            }
        }

        @Override
        public void close() {
            workers.close();
            memory.close();
        }
    }

    /** Measures reads and kernel in turns, each on workers of its own that are bound to the same cores. */
    public Result measure(PagedDecodeAttention attention, List<BandwidthProbe> readers, int threads) {
        List<Rig> all = new ArrayList<>();
        try {
            for (BandwidthProbe reader : readers) {
                all.add(new Rig(reader, threads));
            }
            all.add(new Rig(attention, threads));
            double[][] nanos = new double[all.size()][rounds];
            for (Rig rig : all) {
                warmUp(rig);
            }
            for (int round = 0; round < rounds; round++) {
                for (int i = 0; i < all.size(); i++) {
                    nanos[i][round] = lastRound(all.get(i));
                }
            }
            double peakBandwidth = 0;
            double sequential = 0;
            double arithmetic = 0;
            for (int i = 0; i < readers.size(); i++) {
                double rate = bytes / StepTimer.median(nanos[i]);
                peakBandwidth = readers.get(i).reads() ? Math.max(peakBandwidth, rate) : peakBandwidth;
                arithmetic = readers.get(i).reads() ? arithmetic : rate;
                sequential = readers.get(i).isSequential() ? Math.max(sequential, rate) : sequential;
            }
            double kernel = StepTimer.median(nanos[readers.size()]);
            return new Result(
                    sequential,
                    peakBandwidth,
                    arithmetic,
                    bytes / kernel,
                    kernel / 1e3,
                    all.getLast().workers.isPinned());
        } finally {
            all.forEach(Rig::close);
        }
    }

    /** Nanoseconds of a round while workers spin. */
    private static long lastRound(Rig rig) {
        rig.begin();
        try {
            long nanos = 0;
            for (int i = 0; i < ROUNDS_PER_RESULT; i++) {
                nanos = rig.round();
            }
            return nanos;
        } finally {
            rig.end();
        }
    }

    /** Runs rounds until the JIT has compiled the loops and all pages are mapped. */
    private void warmUp(Rig rig) {
        long begin = clock.nanos();
        do {
            lastRound(rig);
        } while (clock.nanos() - begin < warmUpNanos);
    }

    @Override
    public void close() {
        arena.close();
    }
}
