package dev.tandem.cuda.tune;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.gemm.GemmPlan;
import dev.tandem.cuda.hostattention.HostAttentionQueues;
import dev.tandem.cuda.hostattention.HostAttentionWorkers;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.hostattention.HostToken;
import dev.tandem.cuda.hostattention.HostTokenTracker;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.step.StepBuffer;
import dev.tandem.cuda.step.StepBuffers;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.Curve;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.kv.AttentionSpan;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.ProgressCounter;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/**
 * Measures a {@link Profile}. GPU components are timed by the GPU's own clock. The CPU's attention is timed while the
 * GPU computes decode steps. The KV of both pools is filled with random values first.
 *
 * <p>Owned by: the thread that drives the executor, before it serves.
 */
final class CudaProfiler {
    /** Seconds between the steps of a busy engine, as measured on an H200. */
    private static final double STEP_OVERHEAD = 60e-6;

    private static final int REPEATS = 5;
    private static final int[] CONTEXTS = {64, 512, 2048, 8192};
    /** The shortest context measured: a context of 1 would include clearing the block. */
    private static final int SHORTEST = 2;
    /** Bytes of host KV that are read: far more than any cache holds. */
    private static final long HOST_BYTES = 6L << 30;
    /** Outstanding tasks per worker. */
    private static final int TASKS_PER_WORKER = 3;

    private static final long MEASURE_NANOS = 60_000_000;
    private static final long COMPILE_NANOS = 2_000_000_000;
    /** Rounds per point, of which the fastest counts. */
    private static final int ROUNDS = 2;
    /** Rows of the decode step that is timed while the CPU reads host KV. */
    private static final int LOADED_ROWS = 24;
    /** Rows of each sub-batch of the steps that time stages: about as in whole runs (ADR 124). */
    private static final int WAITING_ROWS = 16;
    /**
     * Max host tokens of the step from which the overhead of one follows; workers limit them, too. With 8, long steps
     * of varying time had 34 us per token and layer; others have 1 (ADR 135).
     */
    private static final int WAITING_TOKENS = 48;
    /**
     * Rounds of steps by turns, whose differences are the overheads of host tokens. Beside the load of
     * {@code --gpu-bandwidth-limit} steps vary by 1 to 3 %; by medians of nine rounds two profiles of one GPU differ by
     * 0.2 us per token (ADR 140). No other number was tried.
     */
    private static final int WAITING_ROUNDS = 9;
    /** Measurements besides curves: the overheads of host tokens, and the load by the host. */
    private static final int SINGLE_VALUES = 2;

    private final StepTimer timer;
    private final Stream stream;
    private final KvPools pools;
    private final ModelShape shape;
    private final StepBuffer decodes;
    private final StepBuffer prompts;
    /** Inputs of second sub-batches. */
    private final StepBuffer second;

    private final HostAttentionQueues queues;
    private final HostAttentionWorkers workers;
    private final Clock clock;
    private final int gpuBlocks;
    private final int layers;
    private final int decodeRows;
    private final ProfilePoints points;
    /** Host blocks that are filled with random values. */
    private final int filled;

    /**
     * @param inputs with a second sub-batch
     * @param decodeRows max rows of decode steps
     * @param promptTokens max rows of a step
     */
    CudaProfiler(
            StepTimer timer,
            Stream stream,
            KvPools pools,
            ModelShape shape,
            StepBuffers inputs,
            HostTokenTracker hostTokens,
            Clock clock,
            int decodeRows,
            int promptTokens) {
        this.timer = timer;
        this.stream = stream;
        this.pools = pools;
        this.shape = shape;
        this.decodes = inputs.graph();
        this.prompts = inputs.first();
        this.second = inputs.second().orElseThrow();
        this.queues = hostTokens.queues();
        this.workers = hostTokens.workers();
        this.clock = clock;
        this.gpuBlocks = pools.gpuBlocks();
        this.layers = shape.config().layers();
        this.decodeRows = decodeRows;
        this.points = ProfilePoints.of(
                decodeRows, Math.min(promptTokens, gpuBlocks * ModelShape.BLOCK_TOKENS), gpuBlocks, pools.hostBlocks());
        this.filled = (int) Math.min(pools.hostBlocks(), HOST_BYTES / (HostFormat.blockBytes(shape) * layers));
    }

    /**
     * Measures all components.
     *
     * @param name of machine, model, dtype and threads, for which the profile is valid
     */
    Profile measure(String name, Progress progress) {
        List<Integer> hostContexts = hostContexts();
        ProgressCounter counter = new ProgressCounter(
                progress, "profiling", points.count() + ROUNDS * hostContexts.size() + SINGLE_VALUES);
        SortedMap<Double, Double> linear = new TreeMap<>();
        SortedMap<Double, Double> postLayer = new TreeMap<>();
        linear(linear, postLayer, counter);
        Curve prefill = curve("prefill-attention", prefillAttention(counter));
        Curve decode = curve("gpu-attention", gpuAttention(counter));
        SortedMap<Integer, Curve> attention = cpuAttention(hostContexts, counter);
        Curve transfer = curve("transfer", transfers(counter));
        // after the CPU's attention, so that its code is compiled; the wait for attention itself is subtracted
        Curve single = Objects.requireNonNull(attention.get(1), "attention of a single host token is measured");
        HostTokenOverheads overheads = hostTokenOverheads(single.at(SHORTEST));
        counter.finished();
        double hostLoad = hostLoad();
        counter.finished();
        return Profile.builder(name, layers)
                .linear(curve("linear", linear))
                .prefillAttention(prefill)
                .gpuAttention(decode)
                .cpuAttention(attention)
                .transfer(transfer)
                .preLayer(new Curve("pre-layer", new double[] {1}, new double[] {1e-6}))
                .postLayer(curve("post-layer", postLayer))
                .stepOverhead(STEP_OVERHEAD)
                .stageOverhead(overheads.stage())
                .tripOverhead(overheads.trip())
                .tokenOverhead(overheads.token())
                .hostLoad(hostLoad)
                .build();
    }

    private static Curve curve(String name, SortedMap<Double, Double> points) {
        return new Curve(
                name,
                points.keySet().stream().mapToDouble(Double::doubleValue).toArray(),
                points.values().stream().mapToDouble(Double::doubleValue).toArray());
    }

    private static void put(SortedMap<Double, Double> points, double size, double millis) {
        points.merge(size, Math.max(1e-9, millis / 1e3), Math::min);
    }

    private void linear(
            SortedMap<Double, Double> linear, SortedMap<Double, Double> postLayer, ProgressCounter counter) {
        int shorter = 0;
        for (int rows : points.rows()) {
            double inner = timer.decodeLayers(decodes, rows, REPEATS);
            stair(linear, shorter, rows, inner / layers);
            shorter = rows;
            put(postLayer, rows, timer.decodeWhole(decodes, rows, REPEATS) - inner);
            counter.finished();
        }
        for (int tokens : points.prompts()) {
            stair(linear, shorter, tokens, timer.promptLayers(prompts, tokens, gpuBlocks, REPEATS) / layers);
            shorter = tokens;
            counter.finished();
        }
    }

    /**
     * Adds the time of so many rows; it is also that of one row more than the next shorter size, where graphs and
     * cublasLt pad all sizes between the two to the longer one.
     */
    private static void stair(SortedMap<Double, Double> linear, int shorter, int rows, double millis) {
        put(linear, rows, millis);
        if (rows - shorter <= GemmPlan.ROW_STEP && rows > GemmPlan.ROW_STEP && rows > shorter + 1) {
            put(linear, shorter + 1, millis);
        }
    }

    private SortedMap<Double, Double> prefillAttention(ProgressCounter counter) {
        SortedMap<Double, Double> times = new TreeMap<>();
        AttentionSpan span = new AttentionSpan(shape.config().windows());
        for (int tokens : points.prefills()) {
            put(
                    times,
                    (double) span.pairs(0, tokens),
                    timer.prefill(prompts, tokens, gpuBlocks, REPEATS).attention() / layers);
            counter.finished();
        }
        return times;
    }

    /** What attention adds to steps of the same number of rows without any. */
    private SortedMap<Double, Double> gpuAttention(ProgressCounter counter) {
        SortedMap<Double, Double> times = new TreeMap<>();
        AttentionSpan span = new AttentionSpan(shape.config().windows());
        for (int tokens : points.contexts()) {
            int rows = Math.min(Math.max(1, tokens / 1024), decodeRows);
            // whole blocks, of which the pool has no more
            int blocks = Math.min(tokens / rows, shape.config().contextTokens()) / ModelShape.BLOCK_TOKENS;
            int context = Math.max(1, blocks) * ModelShape.BLOCK_TOKENS;
            double whole = timer.decode(decodes, rows, rows, context, 0, gpuBlocks, REPEATS)
                    .whole();
            double bare = timer.decodeWhole(decodes, rows, REPEATS);
            put(times, (double) rows * span.tokens(context), (whole - bare) / layers);
            counter.finished();
        }
        return times;
    }

    private SortedMap<Double, Double> transfers(ProgressCounter counter) {
        SortedMap<Double, Double> times = new TreeMap<>();
        int ratio = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;
        for (int blocks : points.transfers()) {
            List<KvView> gpu = views(0, blocks * ratio);
            List<KvView> host = views(0, blocks);
            int tokens = blocks * HostFormat.BLOCK_TOKENS;
            List<Swap> swaps = IntStream.range(0, gpu.size())
                    .mapToObj(group -> new Swap(
                            0,
                            KvTier.GPU,
                            gpu.get(group).blocks(),
                            KvTier.HOST,
                            host.get(group).blocks(),
                            tokens))
                    .toList();
            double millis = timer.time(REPEATS, () -> {
                pools.beginStep(swaps, new int[0]);
                pools.upload(stream);
                pools.begin(stream);
                pools.end(stream);
            });
            put(times, (double) HostFormat.bytesPerToken(shape) * tokens, millis);
            counter.finished();
        }
        pools.beginStep(List.of(), new int[0]);
        return times;
    }

    /** Contexts of which there are enough host tokens to keep all workers busy. */
    private List<Integer> hostContexts() {
        return IntStream.of(CONTEXTS)
                .takeWhile(context -> hostTokensOf(context) >= (context > CONTEXTS[0] ? workers.count() : 1)
                        && context <= shape.config().contextTokens())
                .boxed()
                .toList();
    }

    private SortedMap<Integer, Curve> cpuAttention(List<Integer> contexts, ProgressCounter counter) {
        pools.randomiseHost(filled, shape.type());
        SortedMap<Double, Double> single = new TreeMap<>();
        SortedMap<Double, Double> together = new TreeMap<>();
        SortedMap<Double, Double> inFlight = new TreeMap<>();
        int threads = workers.count();
        try (StepTimer.Busy busy = timer.keepBusy(decodes)) {
            long compiled = clock.nanos() + COMPILE_NANOS; // beside spinning workers the compiler has few cores
            while (clock.nanos() < compiled) {
                secondsPerTask(busy, 1, CONTEXTS[0]);
                secondsOfSameLayer(busy, 1, CONTEXTS[0]);
            }
            for (int round = 0; round < ROUNDS; round++) {
                put(single, SHORTEST, secondsOfSameLayer(busy, 1, SHORTEST) * 1e3);
                for (int context : contexts) {
                    put(single, context, secondsOfSameLayer(busy, 1, context) * 1e3);
                    int some = Math.min(threads, hostTokensOf(context));
                    put(together, context, secondsOfSameLayer(busy, some, context) * 1e3 * threads / some);
                    put(inFlight, context, secondsPerTask(busy, hostTokensOf(context), context) * 1e3);
                    counter.finished();
                }
            }
        }
        SortedMap<Integer, Curve> curves = new TreeMap<>();
        curves.put(1, curve("cpu-attention/1", single));
        if (threads > 1) {
            curves.put(threads, curve("cpu-attention/" + threads, together));
        }
        int many = 8 * threads;
        SortedMap<Double, Double> points = new TreeMap<>();
        inFlight.forEach((context, seconds) -> points.put(context, many * seconds));
        curves.put(many, curve("cpu-attention/" + many, points));
        return curves;
    }

    /** Host tokens of a context that keep the workers busy, limited by the filled blocks. */
    private int hostTokensOf(int context) {
        int blocks = (context - 1) / BlockFormat.TOKENS + 1;
        return Math.min(Math.min(TASKS_PER_WORKER * workers.count(), HostAttentionQueues.MAX), filled / blocks);
    }

    /** Mean time from one finished task to the next, while the GPU computes steps of one row. */
    private double secondsPerTask(StepTimer.Busy busy, int count, int context) {
        try (HostLoad load = new HostLoad(count, context)) {
            long end = 0;
            while (load.tasks < 2L * count || clock.nanos() < end) { // the first round warms up
                busy.refill();
                load.pump();
                if (end == 0 && load.tasks >= count) {
                    load.restart();
                    end = clock.nanos() + MEASURE_NANOS;
                }
            }
            return (clock.nanos() - load.began) / 1e9 / (load.tasks - count);
        }
    }

    /**
     * Median seconds of a layer's attention for so many same-layer tokens, which the workers share. Host tokens take
     * turns, so that no cache holds the next ones' KV. The median counts, because one interruption takes as long as a
     * hundred of the shortest tasks.
     *
     * @param count at most {@link #hostTokensOf} the context
     */
    private double secondsOfSameLayer(StepTimer.Busy busy, int count, int context) {
        List<HostToken> hostTokens = new ArrayList<>();
        try {
            int turns = Math.max(1, hostTokensOf(context) / count);
            for (int number = 0; number < turns * count; number++) {
                hostTokens.add(queues.admitSameLayer(admission(number, context)));
            }
            workers.wake();
            LongStream.Builder times = LongStream.builder();
            long end = clock.nanos() + MEASURE_NANOS;
            for (int task = 0; task == 0 || clock.nanos() < end; task++) {
                busy.refill();
                int first = task % turns * count;
                times.add(await(hostTokens.subList(first, first + count), task / turns % layers));
            }
            if (queues.pollFailure() != null) {
                throw new CudaException("attention on the CPU failed while it was measured");
            }
            long[] sorted = times.build().sorted().toArray();
            return sorted[sorted.length / 2] / 1e9;
        } finally {
            hostTokens.forEach(queues::end);
        }
    }

    /** Nanoseconds until the host tokens' attention of the layer is written. */
    private long await(List<HostToken> hostTokens, int layer) {
        long number = queues.reserveTasks(hostTokens.size());
        long began = clock.nanos();
        for (int i = 0; i < hostTokens.size(); i++) {
            queues.pushSameLayer(number + i, layer, hostTokens.get(i).index);
        }
        for (int i = 0; i < hostTokens.size(); i++) {
            while (queues.completed(hostTokens.get(i).index) != number + i + 1) {
                workers.check().ifPresent(trouble -> {
                    throw new CudaException(trouble);
                });
            }
        }
        return clock.nanos() - began;
    }

    /**
     * What steps that wait for host tokens take per layer beyond their GEMMs and attention, in seconds.
     *
     * @param stage of each of two sub-batches
     * @param trip of a step of one batch
     * @param token of each host token
     */
    private record HostTokenOverheads(double stage, double trip, double token) {}

    /**
     * Measures overheads by host tokens of the shortest context. Steps take turns, and the medians of differences
     * within a round count, because the GPU's speed may change from one round to the next.
     *
     * @param attention seconds of the CPU's attention for one such token
     */
    private HostTokenOverheads hostTokenOverheads(double attention) {
        int rows = waitingRows();
        int several = Math.min(Math.min(WAITING_TOKENS, hostTokensOf(SHORTEST)), waitingCapacity() - rows);
        double[] tokens = new double[WAITING_ROUNDS];
        double[] stages = new double[WAITING_ROUNDS];
        double[] trips = new double[WAITING_ROUNDS];
        for (int round = 0; round < WAITING_ROUNDS; round++) {
            tokens[round] = waiting(2, rows, several) - waiting(2, rows + several - 1, 1);
            double others = timer.decodeLayers(decodes, rows, 1);
            double last = timer.decodeLayers(decodes, rows + 1, 1);
            stages[round] = waiting(2, rows, 1) - others - last;
            trips[round] = waiting(1, rows, 1) - last;
        }
        double token = several > 1 ? Math.max(0, secondsOfLayer(tokens) / (several - 1)) : 0;
        double stage = Math.max(0, (secondsOfLayer(stages) - token) / 2);
        return new HostTokenOverheads(stage, Math.max(0, secondsOfLayer(trips) - attention), token);
    }

    /** @param millis of all layers */
    private double secondsOfLayer(double[] millis) {
        return StepTimer.median(millis) / 1e3 / layers;
    }

    /**
     * Milliseconds of all layers of a step whose last sub-batch waits for host tokens of the shortest context.
     *
     * @param batches one or two sub-batches; the first of two has {@link #waitingRows}
     * @param rows of the last, without host tokens
     * @param count of host tokens
     */
    private double waiting(int batches, int rows, int count) {
        List<HostToken> hostTokens = new ArrayList<>();
        try {
            for (int i = 0; i < count; i++) {
                hostTokens.add(queues.admitSameLayer(admission(i, SHORTEST)));
            }
            workers.wake();
            List<StepTimer.Waiting> waiting = new ArrayList<>();
            if (batches > 1) {
                waiting.add(new StepTimer.Waiting(prompts, waitingRows(), List.of()));
            }
            waiting.add(new StepTimer.Waiting(second, rows, hostTokens));
            double millis = timer.hostTokens(waiting, () -> queues.reserveTasks((long) count * layers), 1);
            if (queues.isAborted()) {
                throw new CudaException(HostTokenTracker.RESULT_TIMEOUT);
            }
            return millis;
        } finally {
            hostTokens.forEach(queues::end);
        }
    }

    /** Rows of a sub-batch beside host tokens. */
    private int waitingRows() {
        return Math.min(WAITING_ROWS, waitingCapacity() / 2);
    }

    /** Max rows of each sub-batch; at least two, one for a sequence and one for a slot. */
    private int waitingCapacity() {
        return IntStream.of(decodes.rowCapacity(), prompts.rowCapacity(), second.rowCapacity())
                .min()
                .getAsInt();
    }

    /** The pages of blocks of all layers in each group. */
    private List<KvView> views(int first, int blocks) {
        return pools.layout().views(IntStream.range(first, first + blocks).toArray());
    }

    /** The admission of a host token over its part of the filled blocks. */
    private Admission admission(int number, int context) {
        int blocks = (context - 1) / BlockFormat.TOKENS + 1;
        TokenSampler sampler =
                new TokenSampler(SamplingParams.builder().temperature(0).build(), new int[] {0}, Set.of(), 0);
        return new Admission(number, context - 1, 0, views(number * blocks, blocks), sampler);
    }

    /** Time of a decode step while all workers attend, divided by its time while they are idle. */
    private double hostLoad() {
        int rows = Math.min(LOADED_ROWS, decodeRows);
        double idle = timer.decodeWhole(decodes, rows, REPEATS);
        try (HostLoad load = new HostLoad(Math.max(1, hostTokensOf(CONTEXTS[1])), CONTEXTS[1])) {
            return Math.max(1, timer.decodeWhole(decodes, rows, 2 * REPEATS, load::pump) / idle);
        }
    }

    /** Host tokens whose next attention is requested as soon as one is finished. The profiler stands for the GPU. */
    private final class HostLoad implements AutoCloseable {
        private final List<HostToken> hostTokens = new ArrayList<>();
        private long tasks;
        private long began;
        private int failed;

        HostLoad(int count, int context) {
            for (int number = 0; number < count; number++) {
                hostTokens.add(queues.admit(admission(number, context)));
            }
            workers.wake();
            hostTokens.forEach(hostToken -> queues.push(0, hostToken.index));
        }

        void restart() {
            began = clock.nanos();
        }

        /** Takes one result, if there is one, and asks for the host token's next layer. */
        void pump() {
            failIfWorkersDo();
            long task = queues.nextResult();
            if (task >= 0) {
                tasks++;
                queues.push((HostAttentionQueues.layer(task) + 1) % layers, HostAttentionQueues.tokenIndex(task));
            }
        }

        private void failIfWorkersDo() {
            HostAttentionQueues.Failure failure = queues.pollFailure();
            if (failure != null) {
                failed++;
                throw new CudaException("attention on the CPU failed while it was measured: " + failure.cause());
            }
            workers.check().ifPresent(trouble -> {
                failed = hostTokens.size(); // close() then waits for none
                throw new CudaException(trouble);
            });
        }

        /** Waits for the outstanding tasks, except those that failed. */
        @Override
        public void close() {
            for (int left = hostTokens.size() - failed; left > 0; ) {
                left -= queues.nextResult() >= 0 ? 1 : 0;
                if (queues.pollFailure() != null) {
                    left--;
                } else if (workers.check().isPresent()) {
                    left = 0;
                }
            }
            hostTokens.forEach(queues::end);
            queues.reset();
        }
    }
}
