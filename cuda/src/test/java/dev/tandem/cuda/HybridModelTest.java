package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.CudaModelTest.Golden;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.step.GraphCache;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.CheapRows;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.Shuffling;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.fetch.Progress;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Logits and greedy tokens of sequences with KV on the host, compared with Hugging Face transformers. */
@Tag("gpu")
class HybridModelTest {
    /** Max prompts of one token that a step of 256 tokens offloads: each takes a block. */
    private static final int STAGED_PROMPTS = 16;
    /** Staging blocks of the plans of this test. The plans use these blocks for nothing else. */
    private static final int[] STAGING =
            IntStream.concat(IntStream.of(2, 4), IntStream.range(8, 22)).toArray();

    private static final int MAX_STEPS = 5_000;
    /** In-flight tokens at one layer: more than a captured step has slots. */
    private static final int COHORT = 100;
    /** The first sequence that is no cohort's. */
    private static final int PROMPT = 1000;
    /** Max relative error of logits, FP16, against those of the GPU alone. */
    private static final double MAX_ERROR_OF_THE_HOST = 2e-2;

    private long step;
    /** Of the executor that the test uses. */
    private ExecutorLimits limits = ExecutorLimits.builder()
            .vocabulary(1)
            .contextTokens(1)
            .blockTokens(1)
            .maxBatchTokens(1)
            .build();

    private CudaExecutor use(CudaExecutor executor) {
        limits = executor.limits();
        return executor;
    }

    private List<KvView> views(int[] blocks) {
        return limits.layout().views(blocks);
    }

    private StepPlan plan(List<Swap> swaps, List<Chunk> chunks, List<Admission> admissions) {
        return new StepPlan(
                step++,
                swaps,
                chunks.isEmpty() ? List.of() : List.of(new SubBatch(chunks, staging(chunks))),
                admissions,
                8,
                List.of(),
                List.of());
    }

    /** The pages that hold a layer of the chunks; none are left for copies. */
    private int[] staging(List<Chunk> chunks) {
        int blocks = 0;
        for (Chunk chunk : chunks) {
            boolean offloads = chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD;
            blocks += offloads ? (chunk.start() + chunk.rows() - 1) / ModelShape.BLOCK_TOKENS + 1 : 0;
        }
        int groups = limits.layout().groups();
        return IntStream.of(STAGING)
                .flatMap(block -> IntStream.range(block * groups, (block + 1) * groups))
                .limit(limits.staging().layerBlocks(blocks))
                .toArray();
    }

    /** Copies of a sequence's KV in all groups of layers. */
    private List<Swap> swaps(KvTier from, int[] fromBlocks, int[] toBlocks, int tokens) {
        List<KvView> source = views(fromBlocks);
        List<KvView> target = views(toBlocks);
        return IntStream.range(0, source.size())
                .mapToObj(group -> new Swap(
                        1,
                        from,
                        source.get(group).blocks(),
                        from.other(),
                        target.get(group).blocks(),
                        tokens))
                .toList();
    }

    private static StepResult run(CudaExecutor executor, StepPlan plan) {
        executor.submit(plan);
        return executor.poll();
    }

    /**
     * Runs one token through all layers, with its attention on the CPU.
     *
     * @return its logits, [vocabulary]
     */
    private float[] runInFlight(CudaExecutor executor, int[] tokens, int position, int[] hostBlocks, List<Swap> swaps) {
        Admission admission =
                new Admission(1, position, tokens[position], views(hostBlocks), CudaModelTest.greedy(tokens));
        StepResult result = run(executor, plan(swaps, List.of(), List.of(admission)));
        for (int steps = 0; result.sampled().isEmpty(); steps++) {
            assertThat(steps).as("steps until the token is sampled").isLessThan(MAX_STEPS);
            result = run(executor, plan(List.of(), List.of(), List.of()));
        }
        return executor.logits(0);
    }

    private Chunk prompt(int[] tokens, int to, int[] blocks, AttentionSite site) {
        return prompt(tokens, 0, to, blocks, site);
    }

    private Chunk prompt(int[] tokens, int from, int to, int[] blocks, AttentionSite site) {
        return chunk(1, tokens, from, to, blocks, site);
    }

    private Chunk chunk(long sequence, int[] tokens, int from, int to, int[] blocks, AttentionSite site) {
        return new Chunk(
                sequence,
                from,
                Arrays.copyOfRange(tokens, from, to),
                views(blocks),
                site,
                Optional.of(CudaModelTest.greedy(tokens)));
    }

    /** A same-layer token: the step waits for its attention. */
    private Chunk sameLayer(long sequence, int[] tokens, int position, int[] blocks) {
        return chunk(sequence, tokens, position, position + 1, blocks, AttentionSite.CPU_FROM_HOST);
    }

    static Stream<Arguments> families() {
        return Stream.of(
                        "llama2",
                        "llama31",
                        "mistralwindow",
                        "qwen2",
                        "qwen3",
                        "phi4mini",
                        "gemma3",
                        "gemma3vision",
                        "olmo3wide")
                .flatMap(family ->
                        Stream.of(DataType.BFLOAT16, DataType.FLOAT16).map(type -> Arguments.of(family, type)));
    }

    /** Heads of this model are stored with padding. The padding must not keep the NaN of an earlier row. */
    @Test
    void aRowOfNaNDoesNotAffectLaterHostTokensInTheSameBatchRow() {
        int[] bad = {5, 9, 200, 31, 7};
        int[] good = {11, 12, 13, 14, 15, 16, 17};
        try (CudaExecutor executor = use(CudaModelTest.executor("llama31", DataType.FLOAT16, 8, true, 2, 10_000))) {
            Chunk badPrompt = chunk(1, bad, 0, 3, new int[] {0}, AttentionSite.GPU_FROM_GPU);
            Chunk goodPrompt = chunk(2, good, 0, 5, new int[] {0}, AttentionSite.GPU_PREFILL_OFFLOAD);
            run(executor, plan(List.of(), List.of(badPrompt, goodPrompt), List.of()));
            Chunk badRow = chunk(1, bad, 3, 4, new int[] {0}, AttentionSite.GPU_FROM_GPU);

            executor.faults().poisonNextRow();
            assertThat(run(executor, plan(List.of(), List.of(badRow), List.of()))
                            .lost())
                    .hasSize(1);
            StepResult sameLayer =
                    run(executor, plan(List.of(), List.of(sameLayer(2, good, 5, new int[] {0})), List.of()));
            assertThat(sameLayer.lost()).isEmpty();
            assertThat(sameLayer.sampled()).hasSize(1);

            executor.faults().poisonNextRow();
            assertThat(run(executor, plan(List.of(), List.of(badRow), List.of()))
                            .lost())
                    .hasSize(1);
            for (float logit : runInFlight(executor, good, 6, new int[] {0}, List.of())) {
                assertThat(logit).isFinite();
            }
        }
    }

    @Test
    void headSizesWithoutCpuKernelsAreRejected() {
        assertThatThrownBy(() -> CudaModelTest.executor("mistral", DataType.BFLOAT16, 8, true, 2, 10_000))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("--strategy gpu-only");
    }

    /** Gemma 3 has seven groups of one layer; layer 5, which alone has no window, is in the first page of a block. */
    @ParameterizedTest
    @CsvSource({"llama31, 1, 2, layer 1", "gemma3, 5, 14, layer 0 of its group"})
    void aBitFlipDuringASwapEndsTheExecutor(String family, int layer, int page, String named) throws IOException {
        int[] tokens = Golden.of(family).prompt();
        int[] gpu = {5, 0, 3, 7, 1, 6};
        int[] host = {2, 0, 3};
        int half = tokens.length / 2;
        try (CudaExecutor executor = use(CudaModelTest.executor(family, DataType.BFLOAT16, 8, true, 2, 10_000))) {
            run(executor, plan(List.of(), List.of(prompt(tokens, half, gpu, AttentionSite.GPU_FROM_GPU)), List.of()));
            executor.submit(plan(swaps(KvTier.GPU, gpu, host, half), List.of(), List.of()));
            executor.logits(0); // the step has ended, and its result has not been polled yet
            MemorySegment block =
                    MemorySegment.ofAddress(executor.hostBlock(layer, page)).reinterpret(1);
            block.set(ValueLayout.JAVA_BYTE, 0, (byte) (block.get(ValueLayout.JAVA_BYTE, 0) ^ 4));
            assertThatThrownBy(executor::poll)
                    .isInstanceOf(ExecutorException.class)
                    .hasMessageContaining("swaps out")
                    .hasMessageContaining("host block " + page + ", " + named);
        }
    }

    @ParameterizedTest
    @MethodSource("families")
    void teacherForcedLogitsMatchTransformersInEveryPlacement(String family, DataType type) throws IOException {
        Golden golden = Golden.of(family);
        int[] tokens = golden.prompt();
        int[] host = {2, 0, 3};
        int[] gpu = {5, 0, 3, 7, 1, 6};
        double bound = CudaModelTest.bound(type);
        try (CudaExecutor executor = use(CudaModelTest.executor(family, type, 8, true, 2, 10_000))) {
            executor.faults().poisonPools();
            double sum = 0;
            for (int i = 1; i < tokens.length; i++) {
                if (i == 1) {
                    runInFlight(executor, tokens, 0, host, List.of());
                }
                double error = CudaModelTest.error(runInFlight(executor, tokens, i, host, List.of()), golden, i);
                assertThat(error)
                        .as("%s %s, position %d on the host", family, type, i)
                        .isLessThan(bound);
                sum += error;
            }
            assertThat(sum / tokens.length)
                    .as("%s %s, mean over positions on the host", family, type)
                    .isLessThan(bound / 2);
            int half = tokens.length / 2;
            run(
                    executor,
                    plan(List.of(), List.of(prompt(tokens, half, host, AttentionSite.GPU_PREFILL_OFFLOAD)), List.of()));
            double offloaded = CudaModelTest.error(runInFlight(executor, tokens, half, host, List.of()), golden, half);
            assertThat(offloaded)
                    .as("%s %s, after prefill offload", family, type)
                    .isLessThan(bound);
            int[] cuts = {0, 7, half - 1, half};
            for (int i = 1; i < cuts.length; i++) {
                Chunk chunk = prompt(tokens, cuts[i - 1], cuts[i], host, AttentionSite.GPU_PREFILL_OFFLOAD);
                run(executor, plan(List.of(), List.of(chunk), List.of()));
            }
            double chunked = CudaModelTest.error(runInFlight(executor, tokens, half, host, List.of()), golden, half);
            assertThat(chunked)
                    .as("%s %s, after chunked prefill offload", family, type)
                    .isLessThan(bound);
            run(executor, plan(List.of(), List.of(sameLayer(1, tokens, half, host)), List.of()));
            double sameLayer = CudaModelTest.error(executor.logits(0), golden, half);
            assertThat(sameLayer).as("%s %s, a same-layer token", family, type).isLessThan(bound);
            twoSubBatches(executor, golden, host, gpu, bound);
            run(executor, plan(List.of(), List.of(prompt(tokens, half, gpu, AttentionSite.GPU_FROM_GPU)), List.of()));
            List<Swap> out = swaps(KvTier.GPU, gpu, host, half);
            double swappedOut = CudaModelTest.error(runInFlight(executor, tokens, half, host, out), golden, half);
            assertThat(swappedOut)
                    .as("%s %s, swapped out and computed in flight in one step", family, type)
                    .isLessThan(bound);
            int[] others = {4, 2, 0, 1, 3, 7};
            List<Swap> in = swaps(KvTier.HOST, host, others, half + 1);
            Chunk next = chunk(1, tokens, half + 1, half + 2, others, AttentionSite.GPU_FROM_GPU);
            run(executor, plan(in, List.of(next), List.of()));
            double swappedIn = CudaModelTest.error(executor.logits(0), golden, half + 1);
            assertThat(swappedIn)
                    .as("%s %s, swapped back to the GPU", family, type)
                    .isLessThan(bound);
        }
    }

    /**
     * One sub-batch decodes sequence 1 and prefills sequence 4; the other decodes sequences 2 and 3. Sequences 1 and 2
     * are on the host.
     */
    private void twoSubBatches(CudaExecutor executor, Golden golden, int[] host, int[] gpu, double bound) {
        int[] tokens = golden.prompt();
        int half = tokens.length / 2;
        int[] other = {1, 5, 4};
        run(
                executor,
                plan(
                        List.of(),
                        List.of(chunk(2, tokens, 0, half, other, AttentionSite.GPU_PREFILL_OFFLOAD)),
                        List.of()));
        run(executor, plan(List.of(), List.of(chunk(3, tokens, 0, half, gpu, AttentionSite.GPU_FROM_GPU)), List.of()));
        for (int position = half; position < Math.min(half + 3, tokens.length); position++) {
            List<SubBatch> batches = List.of(
                    new SubBatch(List.of(
                            sameLayer(1, tokens, position, host),
                            chunk(4, tokens, 0, 9, new int[] {2}, AttentionSite.GPU_FROM_GPU))),
                    new SubBatch(List.of(
                            sameLayer(2, tokens, position, other),
                            chunk(3, tokens, position, position + 1, gpu, AttentionSite.GPU_FROM_GPU))));
            StepResult result =
                    run(executor, new StepPlan(step++, List.of(), batches, List.of(), 0, List.of(), List.of()));
            List<Long> sampled =
                    result.sampled().stream().map(StepResult.Sampled::sequence).toList();
            assertThat(sampled).containsExactlyInAnyOrder(1L, 2L, 3L, 4L);
            for (int i = 0; i < sampled.size(); i++) {
                int at = sampled.get(i) == 4 ? 8 : position;
                assertThat(CudaModelTest.error(executor.logits(i), golden, at))
                        .as("sequence %d, position %d of two sub-batches", sampled.get(i), at)
                        .isLessThan(bound);
            }
        }
    }

    /**
     * The kernel that waits for results must not occupy every multiprocessor. The kernel that sends the queries could
     * not start, and the wait would never end.
     */
    @Test
    void moreSameLayerTokensThanResidentThreadBlocks() throws IOException {
        Golden golden = Golden.of("llama31");
        int[] tokens = golden.prompt();
        int rows = 200;
        CudaOptions options = CudaOptions.builder(DataType.BFLOAT16, 256, 256)
                .device(0, 8)
                .memoryUtilization(0.5)
                .gpuBlocks(OptionalInt.of(40))
                .hostBytes(32 << 20)
                .attentionThreads(3, true, 10_000_000_000L)
                .kvChecksums(true)
                .build();
        try (CudaExecutor executor = use(CudaModelTest.executor("llama31", options))) {
            List<Chunk> first = IntStream.range(0, rows)
                    .mapToObj(i -> chunk(i, tokens, 0, 1, new int[] {i}, AttentionSite.GPU_PREFILL_OFFLOAD))
                    .toList();
            for (int from = 0; from < rows; from += STAGED_PROMPTS) {
                run(executor, plan(List.of(), first.subList(from, Math.min(rows, from + STAGED_PROMPTS)), List.of()));
            }
            List<Chunk> chunks = IntStream.range(0, rows)
                    .mapToObj(i -> sameLayer(i, tokens, 1, new int[] {i}))
                    .toList();
            for (int repeat = 0; repeat < 3; repeat++) {
                StepResult result = run(executor, plan(List.of(), chunks, List.of()));
                assertThat(result.lost()).isEmpty();
                assertThat(result.sampled()).hasSize(rows);
                for (int i = 0; i < rows; i++) {
                    assertThat(CudaModelTest.error(executor.logits(i), golden, 1))
                            .as("row %d", i)
                            .isLessThan(CudaModelTest.bound(DataType.BFLOAT16));
                }
            }
            AtomicLong left = new AtomicLong(-1);
            Profile profile = executor.profile("8 multiprocessors", (what, done, total) -> left.set(total - done));
            assertThat(left).as("points that were not reported").hasValue(0);
            assertThat(Profile.parse(profile.format(), "the measured profile").format())
                    .isEqualTo(profile.format());
            assertThat(profile.cpuAttention()).isNotEmpty();
        }
    }

    /**
     * Same-layer tokens beside GPU decodes in one batch: kernel by kernel at first, and replayed once the padded shape
     * has repeated. Row counts change between replays of one graph, also past the number that rope_store sends.
     */
    @Test
    void replayedStepsWithSameLayerTokensGiveTheSameLogits() throws IOException {
        Golden golden = Golden.of("llama31");
        int[] tokens = golden.prompt();
        int max = 20;
        CudaOptions options = CudaOptions.builder(DataType.BFLOAT16, 256, 256)
                .memoryUtilization(0.5)
                .gpuBlocks(OptionalInt.of(80))
                .hostBytes(32 << 20)
                .attentionThreads(3, true, 10_000_000_000L)
                .kvChecksums(true)
                .build();
        try (CudaExecutor executor = use(CudaModelTest.executor("llama31", options))) {
            for (int i = 0; i < max; i++) {
                int[] gpu = {40 + i};
                run(
                        executor,
                        plan(
                                List.of(),
                                List.of(chunk(i, tokens, 0, 1, new int[] {i}, AttentionSite.GPU_PREFILL_OFFLOAD)),
                                List.of()));
                run(
                        executor,
                        plan(
                                List.of(),
                                List.of(chunk(max + i, tokens, 0, 1, gpu, AttentionSite.GPU_FROM_GPU)),
                                List.of()));
            }
            for (int repeat = 0; repeat < 6; repeat++) {
                for (int[] counts : new int[][] {{5, 3}, {6, 2}, {20, 9}, {18, 12}, {20, 20}, {0, 7}}) {
                    List<Chunk> chunks = new ArrayList<>();
                    for (int i = 0; i < counts[0]; i++) {
                        chunks.add(chunk(max + i, tokens, 1, 2, new int[] {40 + i}, AttentionSite.GPU_FROM_GPU));
                    }
                    for (int i = 0; i < counts[1]; i++) {
                        chunks.add(sameLayer(i, tokens, 1, new int[] {i}));
                    }
                    StepPlan decodes = new StepPlan(
                            step++, List.of(), List.of(new SubBatch(chunks)), List.of(), 0, List.of(), List.of());
                    StepResult result = run(executor, decodes);
                    assertThat(result.lost()).isEmpty();
                    assertThat(result.sampled()).hasSize(chunks.size());
                    for (int i = 0; i < chunks.size(); i++) {
                        assertThat(CudaModelTest.error(executor.logits(i), golden, 1))
                                .as("%d and %d rows, repeat %d, row %d", counts[0], counts[1], repeat, i)
                                .isLessThan(CudaModelTest.bound(DataType.BFLOAT16));
                    }
                }
            }
        }
    }

    /** The KV tier of decoding sequences. */
    enum Placement {
        HOST,
        MIXED,
        MIGRATING
    }

    static Policy policy(Placement placement, Budget budget) {
        return switch (placement) {
            case HOST -> new HostOnly(budget);
            case MIXED -> Strategy.ASYNC_OVERLAP.policy(options(budget, TierRules.neutral()), TestProfile.withCpu(100));
            case MIGRATING -> new Shuffling(budget, Shuffling.Takes.WHAT_CUDA_DOES, 7);
        };
    }

    static Strategy.Options options(Budget budget, TierRules rules) {
        return Strategy.Options.builder(budget)
                .rules(rules)
                .inFlight(new InFlightLimits(64, 1024, true))
                .piggybacking(CheapRows.upTo(64))
                .build();
    }

    /** A model with one group of layers, and with groups of one layer and of two. */
    private static Stream<String> groupings() {
        return Stream.of("llama31", "gemma3", "gemma3vision");
    }

    /** Without checksums, steps are planned ahead of those that offload prefills. */
    private static Stream<Arguments> groupingsAndChecksums() {
        return groupings().flatMap(family -> Stream.of(Arguments.of(family, true), Arguments.of(family, false)));
    }

    private static Stream<Arguments> groupingsAndPlacements() {
        return groupingsAndChecksums()
                .flatMap(of -> Stream.of(Placement.values()).map(each -> Arguments.of(of.get()[0], of.get()[1], each)));
    }

    private static Stream<Arguments> groupingsAndStrategies() {
        return groupingsAndChecksums()
                .flatMap(of -> Stream.of(
                                Strategy.SIMPLE_OFFLOAD,
                                Strategy.SYMMETRIC,
                                Strategy.FASTDECODE_PLUS,
                                Strategy.ASYMMETRIC,
                                Strategy.NEO,
                                Strategy.APEX)
                        .map(strategy -> Arguments.of(of.get()[0], of.get()[1], strategy)));
    }

    @ParameterizedTest
    @MethodSource("groupingsAndPlacements")
    void greedyTokensMatchTransformersInABatchOfOtherRequests(String family, boolean checksums, Placement placement)
            throws IOException {
        Budget budget = new Budget(200, 100, 200);
        greedyTokensMatch(placement.name(), policy(placement, budget), budget, executor(family, checksums), family);
    }

    @ParameterizedTest
    @MethodSource("groupingsAndStrategies")
    void greedyTokensMatchTransformersUnderEveryStrategy(String family, boolean checksums, Strategy strategy)
            throws IOException {
        Budget budget = new Budget(200, 100, 200);
        greedyTokensMatch(
                strategy.flag(),
                strategy.policy(options(budget, TierRules.neutral()), TestProfile.withCpu(100)),
                budget,
                executor(family, checksums),
                family);
    }

    /**
     * More in-flight tokens at one layer than a captured step has slots: the step computes them where they stand, and
     * nowhere else.
     */
    @Test
    void aCohortOfManyTokensMatchesTransformers() throws IOException {
        Budget budget = new Budget(256, 128, 256);
        CudaOptions options = CudaOptions.builder(DataType.FLOAT16, 256, 128)
                .memoryUtilization(0.5)
                .gpuBlocks(OptionalInt.of(30))
                .hostBytes(8 << 20)
                .slots(128)
                .attentionThreads(3, true, 10_000_000_000L)
                .kvChecksums(true)
                .build();
        CudaExecutor executor = CudaModelTest.executor("llama31", options);
        executor.faults().poisonPools();
        int[] max = new int[1];
        HostOnly cohort = new HostOnly(budget, true);
        greedyTokensMatch(
                "cohort",
                (state, why) -> {
                    max[0] = Math.max(max[0], state.inFlight().size());
                    return cohort.draft(state, why);
                },
                budget,
                executor);
        assertThat(max[0]).as("tokens of a cohort").isGreaterThan(64);
    }

    /** The step that a cohort goes through the layers of. */
    enum CohortStep {
        /** A row beside the cohort, so that layers differ most in their rows. */
        DECODE,
        /** More rows than a graph has. */
        MANY_ROWS,
        PREFILL_OFFLOAD,
        TWO_SUB_BATCHES
    }

    private static Stream<Arguments> cohorts() {
        return Arrays.stream(CohortStep.values())
                .flatMap(kind -> Stream.of(Arguments.of(kind, COHORT), Arguments.of(kind, COHORT / 2 + 7)));
    }

    /**
     * A cohort of tokens with different contexts beside other rows. A step computes as many slots at each of the five
     * layers as tokens may return there: before layer 0 alone where the cohort enters, and later where it stands. A
     * cohort whose second part enters two steps later stands at several layers.
     */
    @ParameterizedTest
    @MethodSource("cohorts")
    void aCohortBesideOtherRowsGivesTheLogitsOfTheGpu(CohortStep kind, int firstPart) throws IOException {
        int[] tokens = Golden.of("llama31").prompt();
        int[] random = new SplittableRandom(5).ints(200, 3, 301).toArray();
        int contexts = 10;
        CudaOptions options = CudaOptions.builder(DataType.FLOAT16, 768, 128)
                .memoryUtilization(0.5)
                .gpuBlocks(OptionalInt.of(100))
                .hostBytes(32 << 20)
                .slots(128)
                .attentionThreads(3, true, 10_000_000_000L)
                .kvChecksums(true)
                .build();
        try (CudaExecutor executor = use(new CudaExecutor(
                Checkpoint.open(CudaModelTest.FAMILIES.resolve("deep"), LoadFormat.DUMMY, 9),
                options,
                GpuRig.libraries(),
                GpuRig.compiler(),
                Clock.system(),
                Timeline.OFF,
                Progress.SILENT))) {
            executor.faults().poisonPools();
            List<double[]> expected = new ArrayList<>();
            for (int context = 1; context <= contexts; context++) {
                expected.add(onGpu(executor, tokens, context + 1));
            }
            double[] ofPrompt = onGpu(executor, random, random.length);
            for (int from = 0; from < COHORT; from += STAGED_PROMPTS) {
                List<Chunk> prompts = IntStream.range(from, Math.min(COHORT, from + STAGED_PROMPTS))
                        .mapToObj(i ->
                                chunk(i, tokens, 0, 1 + i % contexts, new int[] {i}, AttentionSite.GPU_PREFILL_OFFLOAD))
                        .toList();
                run(executor, plan(List.of(), prompts, List.of()));
            }
            List<Admission> admissions = IntStream.range(0, COHORT)
                    .mapToObj(i -> new Admission(
                            i,
                            1 + i % contexts,
                            tokens[1 + i % contexts],
                            views(new int[] {i}),
                            CudaModelTest.greedy(tokens)))
                    .toList();
            Set<Long> sampled = new TreeSet<>();
            for (int steps = 0; sampled.size() < COHORT; steps++) {
                assertThat(steps).as("steps until all tokens are sampled").isLessThan(MAX_STEPS);
                List<SubBatch> batches = besides(kind, random);
                int prompts = batches.stream()
                        .mapToInt(batch -> batch.chunks().size())
                        .sum();
                StepResult result = run(
                        executor,
                        new StepPlan(
                                step++,
                                List.of(),
                                batches,
                                steps == 0
                                        ? admissions.subList(0, firstPart)
                                        : steps == 2 ? admissions.subList(firstPart, COHORT) : List.of(),
                                COHORT,
                                List.of(),
                                List.of()));
                assertThat(result.lost()).isEmpty();
                for (int row = 0; row < prompts; row++) {
                    assertThat(GpuRig.error(executor.logits(row), ofPrompt))
                            .as("%s, step %d, prompt %d", kind, steps, row)
                            .isLessThan(MAX_ERROR_OF_THE_HOST);
                }
                // slots are sampled behind the other rows, in a step with few rows behind their padding
                int slot = kind == CohortStep.PREFILL_OFFLOAD ? GraphCache.bucket(prompts) : prompts;
                for (StepResult.Sampled token : result.sampled()) {
                    if (token.sequence() < COHORT) {
                        assertThat(sampled.add(token.sequence())).isTrue();
                        assertThat(GpuRig.error(
                                        executor.logits(slot++), expected.get((int) token.sequence() % contexts)))
                                .as("%s, step %d, sequence %d", kind, steps, token.sequence())
                                .isLessThan(MAX_ERROR_OF_THE_HOST);
                    }
                }
            }
        }
    }

    /** The logits of a prompt's last token, computed by the GPU alone, [vocabulary]. */
    private double[] onGpu(CudaExecutor executor, int[] tokens, int count) {
        int[] blocks = IntStream.range(30, 43).toArray();
        run(
                executor,
                plan(
                        List.of(),
                        List.of(chunk(PROMPT, tokens, 0, count, blocks, AttentionSite.GPU_FROM_GPU)),
                        List.of()));
        float[] logits = executor.logits(0);
        return IntStream.range(0, logits.length).mapToDouble(i -> logits[i]).toArray();
    }

    /** Prompts of the same tokens; a decode is the last token of one whose KV {@link #onGpu} has left. */
    private List<SubBatch> besides(CohortStep kind, int[] tokens) {
        List<Chunk> prompts = IntStream.range(0, 3)
                .mapToObj(i -> chunk(
                        PROMPT + i,
                        tokens,
                        0,
                        tokens.length,
                        IntStream.range(43 + 13 * i, 56 + 13 * i).toArray(),
                        AttentionSite.GPU_FROM_GPU))
                .toList();
        Chunk offloaded = chunk(
                PROMPT,
                tokens,
                0,
                tokens.length,
                IntStream.range(COHORT, COHORT + 13).toArray(),
                AttentionSite.GPU_PREFILL_OFFLOAD);
        Chunk last = chunk(
                PROMPT + 1,
                tokens,
                tokens.length - 1,
                tokens.length,
                IntStream.range(30, 43).toArray(),
                AttentionSite.GPU_FROM_GPU);
        return switch (kind) {
            case DECODE -> List.of(new SubBatch(List.of(last)));
            case MANY_ROWS -> List.of(new SubBatch(prompts));
            case PREFILL_OFFLOAD -> List.of(new SubBatch(List.of(offloaded), staging(List.of(offloaded))));
            case TWO_SUB_BATCHES -> List.of(new SubBatch(prompts.subList(0, 1)), new SubBatch(List.of(last)));
        };
    }

    /** Each step uses a random strategy. It takes over the in-flight tokens and swapped sequences of the one before. */
    @ParameterizedTest
    @MethodSource("groupingsAndChecksums")
    void greedyTokensMatchTransformersWhenStrategiesChange(String family, boolean checksums) throws IOException {
        Budget budget = new Budget(200, 100, 200);
        SplittableRandom random = new SplittableRandom(9);
        List<Policy> policies = Stream.of(Strategy.values())
                .map(strategy -> strategy.policy(options(budget, TierRules.neutral()), TestProfile.withCpu(100)))
                .toList();
        greedyTokensMatch(
                "changing strategies, seed 9",
                (state, why) -> policies.get(random.nextInt(policies.size())).draft(state, why),
                budget,
                executor(family, checksums),
                family);
    }

    /** Free KV blocks contain NaN. */
    private static CudaExecutor executor(String family, boolean checksums) {
        CudaExecutor executor =
                CudaModelTest.executor(family, CudaModelTest.options(DataType.FLOAT16, 60, true, 3, 10_000, checksums));
        executor.faults().poisonPools();
        return executor;
    }

    static void greedyTokensMatch(String placement, Policy policy, Budget budget, CudaExecutor executor)
            throws IOException {
        greedyTokensMatch(placement, policy, budget, executor, "llama31");
    }

    private static void greedyTokensMatch(
            String placement, Policy policy, Budget budget, CudaExecutor executor, String family) throws IOException {
        Golden golden = Golden.of(family);
        List<Integer> expected = Arrays.stream(golden.greedy()).boxed().toList();
        SplittableRandom random = new SplittableRandom(3);
        try (EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(policy), budget)) {
            for (int i = 0; i < 80; i++) {
                int[] prompt = i % 10 == 0
                        ? golden.prompt()
                        : random.ints(1 + random.nextInt(60), 3, 301).toArray();
                engine.submit("r" + i, prompt, EngineHarness.greedy(golden.greedy().length));
            }
            engine.run();
            int onHost = 0;
            for (int i = 0; i < 80; i++) {
                onHost += engine.answers.get("r" + i).usage.hostTokens();
            }
            assertThat(onHost).as("tokens decoded on the host").isPositive();
            for (int i = 0; i < 80; i += 10) {
                List<Integer> actual = engine.tokens("r" + i);
                assertThat(actual).hasSize(expected.size());
                int agreed = 0;
                while (agreed < expected.size() && actual.get(agreed).equals(expected.get(agreed))) {
                    agreed++;
                }
                if (agreed < expected.size()) {
                    assertThat(CudaModelTest.gap(family, golden, actual, agreed))
                            .as("%s, %s, request %d, token %d", family, placement, i, agreed)
                            .isLessThan(0.05);
                }
            }
        }
    }

    @Test
    void hostTokensSupportAllSamplingParametersAndCancellationFreesTheirBlocks() {
        Budget budget = new Budget(256, 64, 64);
        CudaExecutor executor = CudaModelTest.executor("llama31", DataType.BFLOAT16, 100, true, 2, 10_000);
        try (EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(new HostOnly(budget)), budget)) {
            int[] prompt = {5, 9, 200, 31};
            var plain = SamplingParams.builder()
                    .temperature(0.9)
                    .topP(0.8)
                    .maxTokens(20)
                    .ignoreEos(true);
            engine.submit("a", prompt, plain.seed(4L).build());
            engine.submit("b", prompt, plain.seed(4L).build());
            engine.submit(
                    "penalised",
                    prompt,
                    SamplingParams.builder()
                            .temperature(0)
                            .repetitionPenalty(1.3)
                            .maxTokens(20)
                            .ignoreEos(true)
                            .build());
            engine.submit(
                    "logprobs",
                    prompt,
                    SamplingParams.builder()
                            .temperature(0)
                            .logprobs(3)
                            .maxTokens(20)
                            .ignoreEos(true)
                            .build());
            engine.submit("greedy", prompt, EngineHarness.greedy(20));
            engine.submit("cancelled", prompt, EngineHarness.greedy(60));
            for (int i = 0; i < 12; i++) {
                engine.step();
            }
            engine.cancel("cancelled");
            engine.run();
            assertThat(engine.tokens("a")).hasSize(20).isEqualTo(engine.tokens("b"));
            assertThat(engine.tokens("penalised")).hasSize(20);
            assertThat(engine.tokens("logprobs")).isEqualTo(engine.tokens("greedy"));
            assertThat(engine.tokens("cancelled").size()).isLessThan(60);
            assertThat(engine.loop.stats().host().used()).isZero();
            assertThat(engine.loop.stats().gpu().used()).isZero();
        }
    }
}
