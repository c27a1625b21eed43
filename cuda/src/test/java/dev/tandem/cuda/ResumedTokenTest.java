package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.CudaModelTest.Golden;
import dev.tandem.cuda.hostattention.UnreliableAttention;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.fetch.Progress;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * In-flight tokens that a plan resumes finish within its step, with the logits of Hugging Face transformers. Faults of
 * attention workers end only what they must.
 */
@Tag("gpu")
@Timeout(120)
class ResumedTokenTest {
    private static final String FAMILY = "llama31";
    private static final int LAYERS = 2;
    private static final int SLOTS = 8;
    /** Steps within which a worker has taken a task. */
    private static final int MAX_STEPS = 10_000;

    private final List<UnreliableAttention> attention = new ArrayList<>();
    private long step;

    private CudaExecutor executor(DataType type, long watchdogMillis) {
        return CudaModelTest.executor(FAMILY, CudaModelTest.options(type, 60, true, 3, watchdogMillis), real -> {
            UnreliableAttention unreliable = new UnreliableAttention(real);
            attention.add(unreliable);
            return unreliable;
        });
    }

    private StepResult run(CudaExecutor executor, StepPlan plan) {
        executor.submit(plan);
        return executor.poll();
    }

    private StepPlan plan(
            List<SubBatch> batches, List<Admission> admissions, int slots, List<Long> pause, List<Long> resume) {
        return new StepPlan(step++, List.of(), batches, admissions, slots, pause, resume);
    }

    private StepPlan resuming(int slots, Long... sequences) {
        return plan(List.of(), List.of(), slots, List.of(), List.of(sequences));
    }

    /** A step in which in-flight tokens go on. */
    private StepPlan going() {
        return plan(List.of(), List.of(), SLOTS, List.of(), List.of());
    }

    private static int[] host(long sequence) {
        return new int[] {2 * (int) sequence, 2 * (int) sequence + 1};
    }

    private static Chunk chunk(long sequence, int[] tokens, int from, int to, int[] blocks, AttentionSite site) {
        return new Chunk(
                sequence,
                from,
                Arrays.copyOfRange(tokens, from, to),
                blocks,
                site,
                Optional.of(CudaModelTest.greedy(tokens)));
    }

    /** Puts the KV of the first half of the prompt on the host, for each sequence. */
    private void prefill(CudaExecutor executor, int[] tokens, long... sequences) {
        int half = tokens.length / 2;
        for (long sequence : sequences) {
            Chunk prompt = chunk(sequence, tokens, 0, half, host(sequence), AttentionSite.GPU_PREFILL_OFFLOAD);
            int[] staging = IntStream.range(50, 52).toArray();
            run(executor, plan(List.of(new SubBatch(List.of(prompt), staging)), List.of(), 0, List.of(), List.of()));
        }
    }

    /** Admits the next token of each sequence. */
    private StepResult admit(CudaExecutor executor, int[] tokens, long... sequences) {
        int half = tokens.length / 2;
        List<Admission> admissions = LongStream.of(sequences)
                .mapToObj(sequence ->
                        new Admission(sequence, half, tokens[half], host(sequence), CudaModelTest.greedy(tokens)))
                .toList();
        return run(executor, plan(List.of(), admissions, SLOTS, List.of(), List.of()));
    }

    private static List<Long> sampled(StepResult result) {
        return result.sampled().stream().map(StepResult.Sampled::sequence).toList();
    }

    private static void checkLogits(
            CudaExecutor executor, Golden golden, DataType type, StepResult result, int firstSample) {
        int half = golden.prompt().length / 2;
        for (int i = 0; i < result.sampled().size(); i++) {
            assertThat(CudaModelTest.error(executor.logits(firstSample + i), golden, half))
                    .as("sequence %d", result.sampled().get(i).sequence())
                    .isLessThan(CudaModelTest.bound(type));
        }
    }

    static Stream<Arguments> typesAndSteps() {
        return Stream.of(DataType.BFLOAT16, DataType.FLOAT16)
                .flatMap(type -> IntStream.range(0, LAYERS).mapToObj(steps -> Arguments.of(type, steps)));
    }

    /** @param steps between the admission and the step that resumes the tokens; a token passes one layer per step */
    @ParameterizedTest
    @MethodSource("typesAndSteps")
    void someTokensFinishAndThenAllOthers(DataType type, int steps) throws IOException {
        Golden golden = Golden.of(FAMILY);
        int[] tokens = golden.prompt();
        try (CudaExecutor executor = executor(type, 10_000)) {
            executor.faults().poisonPools();
            prefill(executor, tokens, 1, 2, 3, 4);
            admit(executor, tokens, 1, 2, 3, 4);
            for (int i = 0; i < steps; i++) {
                assertThat(run(executor, going()).sampled()).isEmpty();
            }
            StepResult some = run(executor, resuming(0, 2L, 4L));
            assertThat(some.lost()).isEmpty();
            assertThat(sampled(some)).containsExactlyInAnyOrder(2L, 4L);
            checkLogits(executor, golden, type, some, 0);
            StepResult all = run(executor, resuming(0, 1L, 3L));
            assertThat(all.lost()).isEmpty();
            assertThat(sampled(all)).containsExactlyInAnyOrder(1L, 3L);
            checkLogits(executor, golden, type, all, 0);
        }
    }

    /**
     * Tokens that stand at different layers of a deeper model finish in one step. Their logits are those of the GPU
     * alone.
     */
    @Test
    void tokensFinishFromEveryLayer() throws IOException {
        int[] tokens = Golden.of(FAMILY).prompt();
        int half = tokens.length / 2;
        int layers = 5;
        Checkpoint deep = Checkpoint.open(CudaModelTest.FAMILIES.resolve("deep"), LoadFormat.DUMMY, 9);
        assertThat(deep.config().layers()).isEqualTo(layers);
        try (CudaExecutor executor = new CudaExecutor(
                deep,
                CudaModelTest.options(DataType.FLOAT16, 60, true, 3, 10_000),
                GpuRig.libraries(),
                GpuRig.compiler(),
                Clock.system(),
                Timeline.OFF,
                Progress.SILENT)) {
            int[] gpu = {10, 11, 12};
            run(
                    executor,
                    StepPlan.unified(
                            step++, List.of(), List.of(chunk(9, tokens, 0, half, gpu, AttentionSite.GPU_FROM_GPU))));
            run(
                    executor,
                    StepPlan.unified(
                            step++,
                            List.of(),
                            List.of(chunk(9, tokens, half, half + 1, gpu, AttentionSite.GPU_FROM_GPU))));
            float[] logits = executor.logits(0);
            double[] expected = IntStream.range(0, logits.length)
                    .mapToDouble(i -> logits[i])
                    .toArray();
            Long[] sequences = LongStream.rangeClosed(1, layers).boxed().toArray(Long[]::new);
            for (long sequence : sequences) {
                prefill(executor, tokens, sequence);
            }
            for (long sequence : sequences) {
                assertThat(admit(executor, tokens, sequence).sampled()).isEmpty();
            }
            StepResult result = run(executor, resuming(0, sequences));
            assertThat(result.lost()).isEmpty();
            assertThat(sampled(result)).containsExactlyInAnyOrder(sequences);
            for (int row = 0; row < layers; row++) {
                assertThat(GpuRig.error(executor.logits(row), expected))
                        .as("sampled row %d", row)
                        .isLessThan(2e-2);
            }
        }
    }

    /** A task takes two milliseconds at least, which the step waits for at each layer. */
    @Test
    void theResultSaysHowLongTheStepWaited() throws IOException {
        int[] tokens = Golden.of(FAMILY).prompt();
        int half = tokens.length / 2;
        try (CudaExecutor executor = executor(DataType.FLOAT16, 10_000)) {
            prefill(executor, tokens, 1, 2);
            attention.forEach(unreliable -> unreliable.pauses = 1);
            StepTimes entering = admit(executor, tokens, 1).times();
            assertThat(entering.hostWait())
                    .as("in-flight tokens are not waited for")
                    .isZero();
            assertThat(entering.subBatchAttention()).as("nor is a sub-batch").isZero();
            long finished = run(executor, resuming(0, 1L)).times().hostWait();
            assertThat(finished).as("from layer 0 on").isGreaterThan(1_000_000);
            Chunk sameLayer = chunk(2, tokens, half, half + 1, host(2), AttentionSite.CPU_FROM_HOST);
            for (int again = 0; again < 3; again++) { // each step is timed apart
                StepResult result = run(
                        executor, plan(List.of(new SubBatch(List.of(sameLayer))), List.of(), 0, List.of(), List.of()));
                assertThat(result.times().hostWait()).as("at both layers").isGreaterThan(2_000_000);
                assertThat(result.times().subBatchAttention())
                        .as("its task at both layers")
                        .isGreaterThan(4_000_000);
            }
        }
    }

    /** The other tokens go on in the slots of the same steps, and each returns where it stands. */
    @Test
    void othersGoOnBesideTokensThatFinish() throws IOException {
        Golden golden = Golden.of(FAMILY);
        int[] tokens = golden.prompt();
        try (CudaExecutor executor = executor(DataType.FLOAT16, 10_000)) {
            long[] sequences = LongStream.rangeClosed(1, 3 * SLOTS).toArray();
            prefill(executor, tokens, sequences);
            admit(executor, tokens, sequences);
            List<Long> left = new ArrayList<>(LongStream.of(sequences).boxed().toList());
            for (int steps = 0; !left.isEmpty(); steps++) {
                assertThat(steps).isLessThan(MAX_STEPS);
                // at first more tokens return than have slots
                long resumed = left.getLast();
                StepResult result = run(executor, resuming(SLOTS, resumed));
                assertThat(result.lost()).isEmpty();
                assertThat(sampled(result)).contains(resumed);
                assertThat(left).containsAll(sampled(result));
                left.removeAll(sampled(result));
            }
        }
    }

    @Test
    void tokensFinishInTheSecondSubBatchBesideAPromptAndSameLayerTokens() throws IOException {
        Golden golden = Golden.of(FAMILY);
        int[] tokens = golden.prompt();
        int half = tokens.length / 2;
        try (CudaExecutor executor = executor(DataType.FLOAT16, 10_000)) {
            prefill(executor, tokens, 1, 2, 3, 4);
            admit(executor, tokens, 1, 2);
            Chunk prompt = chunk(5, tokens, 0, half + 1, new int[] {0, 1}, AttentionSite.GPU_FROM_GPU);
            List<SubBatch> batches = List.of(
                    new SubBatch(
                            List.of(prompt, chunk(3, tokens, half, half + 1, host(3), AttentionSite.CPU_FROM_HOST))),
                    new SubBatch(List.of(chunk(4, tokens, half, half + 1, host(4), AttentionSite.CPU_FROM_HOST))));
            StepResult result = run(executor, plan(batches, List.of(), 0, List.of(), List.of(1L, 2L)));
            assertThat(result.lost()).isEmpty();
            assertThat(sampled(result)).containsExactlyInAnyOrder(1L, 2L, 3L, 4L, 5L);
            for (int row = 0; row < 5; row++) {
                assertThat(CudaModelTest.error(executor.logits(row), golden, half))
                        .as("sampled row %d", row)
                        .isLessThan(CudaModelTest.bound(DataType.FLOAT16));
            }
        }
    }

    /** The second sub-batch computes nothing at layers before those at which its tokens stand. */
    @ParameterizedTest
    @MethodSource("typesAndSteps")
    void tokensFinishInASubBatchOfTheirOwnBesideAPrompt(DataType type, int steps) throws IOException {
        Golden golden = Golden.of(FAMILY);
        int[] tokens = golden.prompt();
        int half = tokens.length / 2;
        try (CudaExecutor executor = executor(type, 10_000)) {
            executor.faults().poisonPools();
            prefill(executor, tokens, 1, 2);
            admit(executor, tokens, 1, 2);
            for (int i = 0; i < steps; i++) {
                assertThat(run(executor, going()).sampled()).isEmpty();
            }
            int[] blocks = IntStream.range(50, 54).toArray();
            Chunk prompt = chunk(5, tokens, 0, tokens.length, blocks, AttentionSite.GPU_FROM_GPU);
            List<SubBatch> batches = List.of(new SubBatch(List.of(prompt)), new SubBatch(List.of()));
            StepResult result = run(executor, plan(batches, List.of(), 0, List.of(), List.of(1L, 2L)));
            assertThat(result.lost()).isEmpty();
            assertThat(sampled(result)).containsExactlyInAnyOrder(1L, 2L, 5L);
            for (int row = 0; row < 3; row++) {
                int position = row == 0 ? tokens.length - 1 : half;
                assertThat(CudaModelTest.error(executor.logits(row), golden, position))
                        .as("sampled row %d", row)
                        .isLessThan(CudaModelTest.bound(type));
            }
        }
    }

    /** A token may have ended after the plan was made, and then the second sub-batch has no rows at all. */
    @Test
    void aPromptIsComputedBesideTokensThatHaveEnded() throws IOException {
        Golden golden = Golden.of(FAMILY);
        int[] tokens = golden.prompt();
        try (CudaExecutor executor = executor(DataType.FLOAT16, 10_000)) {
            int[] blocks = IntStream.range(50, 54).toArray();
            Chunk prompt = chunk(5, tokens, 0, tokens.length, blocks, AttentionSite.GPU_FROM_GPU);
            List<SubBatch> batches = List.of(new SubBatch(List.of(prompt)), new SubBatch(List.of()));
            StepResult result = run(executor, plan(batches, List.of(), 0, List.of(), List.of(99L)));
            assertThat(result.lost()).isEmpty();
            assertThat(sampled(result)).containsExactly(5L);
            assertThat(CudaModelTest.error(executor.logits(0), golden, tokens.length - 1))
                    .isLessThan(CudaModelTest.bound(DataType.FLOAT16));
        }
    }

    /**
     * The first layer does not compute the token's row. Its GEMMs compute it all the same, because the library's rows
     * are rounded up.
     */
    @ParameterizedTest
    @EnumSource(
            value = DataType.class,
            names = {"BFLOAT16", "FLOAT16"})
    void aTokenFinishesFromTheLastLayerBesideALongPrompt(DataType type) throws IOException {
        Golden golden = Golden.of(FAMILY);
        int[] tokens = golden.prompt();
        int[] random = new SplittableRandom(5).ints(100, 3, 301).toArray();
        try (CudaExecutor executor = executor(type, 10_000)) {
            executor.faults().poisonPools();
            prefill(executor, tokens, 1);
            admit(executor, tokens, 1);
            for (int steps = 0; tasks() < LAYERS; steps++) {
                assertThat(steps).isLessThan(MAX_STEPS);
                assertThat(run(executor, going()).sampled()).isEmpty();
            }
            int[] blocks = IntStream.range(20, 27).toArray();
            Chunk prompt = chunk(5, random, 0, random.length, blocks, AttentionSite.GPU_FROM_GPU);
            StepResult result =
                    run(executor, plan(List.of(new SubBatch(List.of(prompt))), List.of(), 0, List.of(), List.of(1L)));
            assertThat(result.lost()).isEmpty();
            assertThat(sampled(result)).containsExactlyInAnyOrder(1L, 5L);
            assertThat(CudaModelTest.error(executor.logits(1), golden, tokens.length / 2))
                    .isLessThan(CudaModelTest.bound(type));
        }
    }

    /** Calls of attention that have begun. */
    private long tasks() {
        return attention.stream().mapToLong(UnreliableAttention::tasks).sum();
    }

    @Test
    void aTokenThatIsPausedAndResumedAtOnceIsPaused() throws IOException {
        int[] tokens = Golden.of(FAMILY).prompt();
        try (CudaExecutor executor = executor(DataType.FLOAT16, 10_000)) {
            prefill(executor, tokens, 1, 2);
            admit(executor, tokens, 1, 2);
            StepResult result = run(executor, plan(List.of(), List.of(), SLOTS, List.of(1L), List.of(1L, 2L)));
            assertThat(sampled(result)).contains(2L).doesNotContain(1L);
            List<Long> paused = new ArrayList<>(result.paused());
            for (int steps = 0; paused.isEmpty(); steps++) {
                assertThat(steps).isLessThan(MAX_STEPS);
                paused.addAll(run(executor, going()).paused());
            }
            assertThat(paused).containsExactly(1L);
            // its blocks and its index serve another token of the sequence
            admit(executor, tokens, 1);
            assertThat(sampled(run(executor, resuming(0, 1L)))).containsExactly(1L);
        }
    }

    @Test
    void aTokenThatIsNotInFlightIsLeftOut() throws IOException {
        int[] tokens = Golden.of(FAMILY).prompt();
        try (CudaExecutor executor = executor(DataType.FLOAT16, 10_000)) {
            prefill(executor, tokens, 1);
            admit(executor, tokens, 1);
            assertThat(sampled(run(executor, resuming(0, 99L, 1L)))).containsExactly(1L);
            assertThat(run(executor, resuming(0, 1L)).sampled()).isEmpty();
        }
    }

    @Test
    void moreTokensThanSlotsAreAnError() {
        try (CudaExecutor executor = executor(DataType.FLOAT16, 10_000)) {
            Long[] sequences = LongStream.range(0, 65).boxed().toArray(Long[]::new);
            StepPlan plan = resuming(0, sequences);
            assertThatThrownBy(() -> executor.submit(plan))
                    .isInstanceOf(ExecutorException.class)
                    .hasMessageContaining("65 finish within the step")
                    .hasMessageContaining("64 slots");
        }
    }

    /**
     * Admits tokens 1 and 2, applies a fault, and resumes both.
     *
     * @return the result of the step that resumes them
     */
    private StepResult resumeAfter(CudaExecutor executor, Consumer<CudaExecutor> fault) throws IOException {
        int[] tokens = Golden.of(FAMILY).prompt();
        prefill(executor, tokens, 1, 2);
        admit(executor, tokens, 1, 2);
        fault.accept(executor);
        return run(executor, resuming(SLOTS, 1L, 2L));
    }

    /** The step goes on with what the GPU holds, and the next steps run without the host. */
    private void checkGpuGoesOn(CudaExecutor executor) throws IOException {
        Golden golden = Golden.of(FAMILY);
        int[] tokens = golden.prompt();
        Chunk prompt = chunk(7, tokens, 0, tokens.length, new int[] {5, 6, 7}, AttentionSite.GPU_FROM_GPU);
        StepResult result = run(executor, StepPlan.unified(step++, List.of(), List.of(prompt)));
        assertThat(sampled(result)).containsExactly(7L);
        assertThat(CudaModelTest.error(executor.logits(0), golden, tokens.length - 1))
                .isLessThan(CudaModelTest.bound(DataType.FLOAT16));
    }

    @Test
    void aWorkerThatStallsDuringAResumedTokenLosesTheHostTokens() throws IOException {
        try (CudaExecutor executor = executor(DataType.FLOAT16, 300)) {
            try {
                StepResult result =
                        resumeAfter(executor, any -> attention.forEach(unreliable -> unreliable.stalls = true));
                // the other token finishes if its own attention was there in time
                assertThat(result.sampled().size() + result.lost().size()).isEqualTo(2);
                assertThat(result.lost())
                        .allSatisfy(lost -> assertThat(lost.message()).contains("has been at one task for"));
                assertThat(result.lost())
                        .filteredOn(StepResult.Lost::stillInUse)
                        .isNotEmpty();
                checkGpuGoesOn(executor);
            } finally {
                attention.forEach(unreliable -> unreliable.release.countDown());
            }
        }
    }

    @Test
    void deadWorkersLoseTheResumedTokens() throws IOException {
        try (CudaExecutor executor = executor(DataType.FLOAT16, 300)) {
            StepResult result = resumeAfter(executor, any -> any.faults().endWorkers());
            assertThat(result.sampled()).isEmpty();
            assertThat(result.lost())
                    .hasSize(2)
                    .allSatisfy(lost -> assertThat(lost.message()).contains("is gone"));
            checkGpuGoesOn(executor);
        }
    }

    /** The step does not wait for a result that cannot come, and the other token finishes. */
    @Test
    void aTaskThatThrowsLosesItsResumedTokenAlone() throws IOException {
        int[] tokens = Golden.of(FAMILY).prompt();
        int half = tokens.length / 2;
        try (CudaExecutor executor = executor(DataType.FLOAT16, 10_000)) {
            prefill(executor, tokens, 1);
            int[] blocks = host(2);
            Chunk shorter = chunk(2, tokens, 0, half - 5, blocks, AttentionSite.GPU_PREFILL_OFFLOAD);
            run(
                    executor,
                    plan(
                            List.of(new SubBatch(List.of(shorter), new int[] {50, 51})),
                            List.of(),
                            0,
                            List.of(),
                            List.of()));
            List<Admission> both = List.of(
                    new Admission(1, half, tokens[half], host(1), CudaModelTest.greedy(tokens)),
                    new Admission(2, half - 5, tokens[half - 5], blocks, CudaModelTest.greedy(tokens)));
            run(executor, plan(List.of(), both, SLOTS, List.of(), List.of()));
            attention.forEach(unreliable -> unreliable.poisoned = half + 1);
            StepResult result = run(executor, resuming(SLOTS, 1L, 2L));
            assertThat(sampled(result)).containsExactly(2L);
            assertThat(result.lost()).hasSize(1).allSatisfy(token -> {
                assertThat(token.sequence()).isEqualTo(1);
                assertThat(token.message()).contains("its attention on the CPU failed");
                assertThat(token.stillInUse()).isFalse();
            });
            attention.forEach(unreliable -> unreliable.poisoned = -1);
            admit(executor, tokens, 1);
            assertThat(sampled(run(executor, resuming(0, 1L)))).containsExactly(1L);
            checkGpuGoesOn(executor);
        }
    }
}
