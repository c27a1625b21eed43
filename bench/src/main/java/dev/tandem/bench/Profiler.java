package dev.tandem.bench;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.Curve;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.cost.ProfileException;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.step.SubBatch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.function.ToLongFunction;
import java.util.stream.IntStream;

/**
 * Measures a {@link Profile} by running step plans on an executor and timing them, which takes seconds. It first fills
 * KV blocks with computed values, because memory that was never written reads faster than other memory.
 *
 * <p>Owned by: the thread that drives the executor.
 */
public final class Profiler {
    private static final int[] ROWS = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
    private static final int[] CONTEXTS = {16, 128, 512, 2048, 8192};
    private static final int[] CPU_ROWS = {1, 4, 16, 64};
    /** The maximum of KV tokens that are measured; the cost model extrapolates to larger pools. */
    public static final int MAX_TOKENS = 16_384;

    private static final int REPEATS = 5;
    /** A plan that takes longer is repeated once only; after one of twice this time, longer prefills are left out. */
    private static final long LONG_NANOS = 400_000_000;

    private final Executor executor;
    private final ExecutorLimits limits;
    private final Clock clock;
    private final ThroughputRun.Progress progress;
    private final SplittableRandom random;
    private final TokenSampler sampler;
    private final TreeMap<Double, Double> linear = new TreeMap<>();
    private final TreeMap<Double, Double> prefillAttention = new TreeMap<>();
    private final TreeMap<Double, Double> gpuAttention = new TreeMap<>();
    private final TreeMap<Integer, TreeMap<Double, Double>> cpuAttention = new TreeMap<>();
    private final TreeMap<Double, Double> transfer = new TreeMap<>();
    private final TreeMap<Double, Double> preLayer = new TreeMap<>();
    private final TreeMap<Double, Double> postLayer = new TreeMap<>();
    private double stepOverhead = Double.MAX_VALUE;
    private long step;
    private int done;

    /** The times of one plan: of the repetition whose wall time is the median. */
    private record Sample(StepTimes times, long wall) {
        long nanos(ToLongFunction<StepTimes> component) {
            return component.applyAsLong(times);
        }
    }

    /**
     * A profiler of one executor.
     *
     * @param executor must not be used by anything else meanwhile; its KV blocks are overwritten
     */
    public Profiler(Executor executor, Clock clock, long seed, ThroughputRun.Progress progress) {
        this.executor = executor;
        this.limits = executor.limits();
        this.clock = clock;
        this.progress = progress;
        this.random = new SplittableRandom(seed);
        this.sampler = new TokenSampler(SamplingParams.builder().temperature(0).build(), new int[] {0}, Set.of(), 0);
    }

    /**
     * Runs all measurements.
     *
     * @param name what the profile applies to: machine, model, dtype and threads
     * @throws ProfileException if there is no host KV, or steps or contexts are too short
     */
    public Profile measure(String name) {
        int min = Math.min(CONTEXTS[0], limits.blockTokens());
        if (limits.hostBlocks() == 0 || Math.min(limits.maxBatchTokens(), limits.contextTokens()) < min) {
            throw new ProfileException("profiling needs at least one block of host KV, and steps and contexts of " + min
                    + " tokens; raise --host-kv, --max-num-batched-tokens or --max-model-len");
        }
        int gpuTokens = fillGpu();
        int hostTokens = fillHost(gpuTokens);
        prefills();
        gpuDecodes(gpuTokens);
        cpuDecodes(hostTokens);
        transfers(hostTokens);
        double stage = stageOverhead();
        progress.at("profiling", 100, 100);
        return Profile.builder(name, limits.layers())
                .linear(curve("linear", linear))
                .prefillAttention(curve("prefill-attention", prefillAttention))
                .gpuAttention(curve("gpu-attention", gpuAttention))
                .cpuAttention(cpuCurves())
                .transfer(curve("transfer", transfer))
                .preLayer(curve("pre-layer", preLayer))
                .postLayer(curve("post-layer", postLayer))
                .stepOverhead(stepOverhead)
                .stageOverhead(stage)
                .build();
    }

    private static Curve curve(String name, SortedMap<Double, Double> points) {
        return new Curve(
                name,
                points.keySet().stream().mapToDouble(Double::doubleValue).toArray(),
                points.values().stream().mapToDouble(Double::doubleValue).toArray());
    }

    private SortedMap<Integer, Curve> cpuCurves() {
        SortedMap<Integer, Curve> curves = new TreeMap<>();
        cpuAttention.forEach((rows, points) -> curves.put(rows, curve("cpu-attention/" + rows, points)));
        return curves;
    }

    /** Fills the first GPU blocks with computed KV; returns how many tokens they hold. */
    private int fillGpu() {
        int max = Math.min(MAX_TOKENS, limits.gpuBlocks() * limits.blockTokens());
        int first = Math.min(Math.min(limits.maxBatchTokens(), limits.contextTokens()), Math.min(max, 256));
        run(prefill(first));
        int filled = first / limits.blockTokens() * limits.blockTokens();
        int[] from = blocks(0, filled);
        int[] through = blocks(0, Math.min(filled, limits.hostBlocks() * limits.blockTokens()));
        int piece = through.length * limits.blockTokens();
        run(swaps(KvTier.GPU, Arrays.copyOf(from, through.length), KvTier.HOST, through));
        for (int tokens = filled; tokens + piece <= max; tokens += piece) {
            run(swaps(KvTier.HOST, through, KvTier.GPU, blocks(tokens, piece)));
            filled = tokens + piece;
        }
        return filled;
    }

    /** Copies the KV of the first GPU blocks to the first host blocks; returns how many tokens these hold. */
    private int fillHost(int gpuTokens) {
        int max = Math.min(Math.min(MAX_TOKENS, limits.hostBlocks() * limits.blockTokens()), gpuTokens);
        int blocks = max / limits.blockTokens();
        int[] all = blocks(0, blocks * limits.blockTokens());
        run(swaps(KvTier.GPU, all, KvTier.HOST, all));
        return blocks * limits.blockTokens();
    }

    private void prefills() {
        for (int rows : ROWS) {
            int max = Math.min(
                    Math.min(limits.maxBatchTokens(), limits.contextTokens() - 1),
                    limits.gpuBlocks() * limits.blockTokens());
            if (rows > max) {
                break;
            }
            Sample sample = sample(prefill(rows));
            put(linear, rows, sample.nanos(StepTimes::linear), limits.layers());
            put(preLayer, rows, sample.nanos(StepTimes::preLayer), 1);
            put(postLayer, 1, sample.nanos(StepTimes::postLayer), 1);
            put(
                    prefillAttention,
                    limits.span().pairs(0, rows),
                    sample.nanos(StepTimes::prefillAttention),
                    limits.layers());
            if (sample.wall() > 2 * LONG_NANOS) {
                break;
            }
        }
    }

    private void gpuDecodes(int tokens) {
        for (int context : CONTEXTS) {
            for (int rows : new int[] {1, 8, 64}) {
                if (fits(rows, context, tokens)) {
                    Sample sample = sample(decodes(rows, context, AttentionSite.GPU_FROM_GPU));
                    put(
                            gpuAttention,
                            (long) rows * limits.span().tokens(context),
                            sample.nanos(StepTimes::gpuAttention),
                            limits.layers());
                    put(postLayer, rows, sample.nanos(StepTimes::postLayer), 1);
                    StepTimes t = sample.times();
                    long parts = t.linear() + t.gpuAttention() + t.preLayer() + t.postLayer();
                    stepOverhead = Math.clamp((sample.wall() - parts) / 1e9, 0, stepOverhead);
                }
            }
        }
    }

    private void cpuDecodes(int tokens) {
        for (int rows : CPU_ROWS) {
            for (int context : CONTEXTS) {
                if (fits(rows, context, tokens)) {
                    Sample sample = sample(decodes(rows, context, AttentionSite.CPU_FROM_HOST));
                    put(
                            cpuAttention.computeIfAbsent(rows, key -> new TreeMap<>()),
                            limits.span().tokens(context),
                            sample.nanos(StepTimes::cpuAttention),
                            limits.layers());
                }
            }
        }
    }

    private boolean fits(int rows, int context, int tokens) {
        return rows <= limits.maxBatchTokens() && context <= limits.contextTokens() && (long) rows * context <= tokens;
    }

    private void transfers(int tokens) {
        for (int blocks : new int[] {1, 4, 16, 64, 256}) {
            if (blocks * limits.blockTokens() <= tokens) {
                int[] all = blocks(0, blocks * limits.blockTokens());
                Sample sample = sample(swaps(KvTier.GPU, all, KvTier.HOST, all));
                put(
                        transfer,
                        limits.kvBytesPerToken() * blocks * limits.blockTokens(),
                        sample.nanos(StepTimes::transfer),
                        1);
            }
        }
    }

    /** The overhead of alternating, in seconds per stage, measured with two sub-batches of one token each. */
    private double stageOverhead() {
        if (limits.maxBatchTokens() < 2 || limits.gpuBlocks() < 2) {
            return 0;
        }
        Sample one = sample(decodes(1, 2, AttentionSite.GPU_FROM_GPU));
        List<Chunk> rows = chunks(2, 2, AttentionSite.GPU_FROM_GPU);
        Sample two =
                sample(plan(List.of(), List.of(new SubBatch(rows.subList(0, 1)), new SubBatch(rows.subList(1, 2)))));
        double extra = (two.wall() - 2.0 * (one.wall() - stepOverhead * 1e9)) / 1e9 - stepOverhead;
        return Math.max(0, extra / (2 * limits.layers()));
    }

    private static void put(SortedMap<Double, Double> points, long size, long nanos, int layers) {
        points.merge((double) size, Math.max(1, nanos) / 1e9 / layers, Math::min);
    }

    private StepPlan prefill(int rows) {
        int[] tokens = random.ints(rows, 0, limits.vocabulary()).toArray();
        Chunk chunk = new Chunk(0, 0, tokens, views(blocks(0, rows)), AttentionSite.GPU_FROM_GPU, Optional.of(sampler));
        return plan(List.of(), List.of(new SubBatch(List.of(chunk))));
    }

    private StepPlan decodes(int rows, int context, AttentionSite site) {
        return plan(List.of(), List.of(new SubBatch(chunks(rows, context, site))));
    }

    /** Decode chunks, each over blocks of its own. */
    private List<Chunk> chunks(int rows, int context, AttentionSite site) {
        List<Chunk> chunks = new ArrayList<>(rows);
        int each = (context + limits.blockTokens() - 1) / limits.blockTokens() * limits.blockTokens();
        for (int i = 0; i < rows; i++) {
            int[] token = {random.nextInt(limits.vocabulary())};
            chunks.add(new Chunk(i, context - 1, token, views(blocks(i * each, context)), site, Optional.of(sampler)));
        }
        return chunks;
    }

    private StepPlan swaps(KvTier from, int[] fromBlocks, KvTier to, int[] toBlocks) {
        int tokens = fromBlocks.length * limits.blockTokens();
        List<Swap> copies = new ArrayList<>();
        for (int group = 0; group < limits.layout().groups(); group++) {
            int[] source = views(fromBlocks).get(group).blocks();
            copies.add(new Swap(0, from, source, to, views(toBlocks).get(group).blocks(), tokens));
        }
        return plan(copies, List.of());
    }

    private List<KvView> views(int[] blocks) {
        return limits.layout().views(blocks);
    }

    private StepPlan plan(List<Swap> swaps, List<SubBatch> batches) {
        return new StepPlan(step++, swaps, batches, List.of(), 0, List.of(), List.of());
    }

    private int[] blocks(int fromToken, int tokens) {
        int first = fromToken / limits.blockTokens();
        return IntStream.range(first, first + (tokens + limits.blockTokens() - 1) / limits.blockTokens())
                .toArray();
    }

    private Sample sample(StepPlan plan) {
        Sample first = run(plan);
        int repeats = first.wall() > LONG_NANOS ? 1 : REPEATS;
        List<Sample> samples = new ArrayList<>();
        for (int i = 0; i < repeats; i++) {
            samples.add(run(plan));
        }
        samples.sort((a, b) -> Long.compare(a.wall(), b.wall()));
        done = Math.min(99, done + 2);
        progress.at("profiling", done, 100);
        return samples.get(samples.size() / 2);
    }

    private Sample run(StepPlan plan) {
        long begin = clock.nanos();
        executor.submit(plan);
        StepTimes times = executor.poll().times();
        return new Sample(times, clock.nanos() - begin);
    }
}
