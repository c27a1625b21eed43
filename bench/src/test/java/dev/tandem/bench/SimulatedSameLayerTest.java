package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The simulated time of a step with host tokens, and how much of it the GPU waits for the CPU. */
class SimulatedSameLayerTest {
    private static final String PROFILE = """
            name test
            layers 2
            linear 1 10
            linear 1000 10
            prefill-attention 1 0.001
            gpu-attention 1 0.01
            gpu-attention 100000 1000
            cpu-attention/1 1 0.1
            cpu-attention/1 10000 1000
            transfer 1 1e-9
            pre-layer 1 1e-9
            post-layer 1 1e-9
            step-overhead 0
            stage-overhead 0.5
            trip-overhead 2
            """;

    /** Seconds of a step, and those of them in which the GPU waits. */
    private record Times(double seconds, double waited) {}

    private static Times times(Chunk... chunks) {
        return times(List.of(new SubBatch(List.of(chunks))));
    }

    private static Times times(List<SubBatch> batches) {
        return times(PROFILE, batches);
    }

    private static Times times(String profile, List<SubBatch> batches) {
        VirtualClock clock = new VirtualClock();
        ExecutorLimits limits = ExecutorLimits.builder()
                .vocabulary(10)
                .contextTokens(2000)
                .blockTokens(16)
                .gpuBlocks(200)
                .hostBlocks(200)
                .maxBatchTokens(64)
                .layers(2)
                .kvBytesPerToken(1)
                .build();
        try (SimulatedExecutor executor =
                new SimulatedExecutor(limits, new CostModel(Profile.parse(profile, "the test profile")), clock)) {
            executor.submit(new StepPlan(0, List.of(), batches, List.of(), 0, List.of(), List.of()));
            return new Times(clock.nanos() / 1e9, executor.poll().times().hostWait() / 1e9);
        }
    }

    private static Chunk decode(long sequence, int context, AttentionSite site) {
        TokenSampler sampler = new TokenSampler(SamplingParams.builder().build(), new int[1], Set.of(), 1);
        return new Chunk(sequence, context - 1, new int[1], new int[200], site, Optional.of(sampler));
    }

    private static Chunk gpu(int context) {
        return decode(0, context, AttentionSite.GPU_FROM_GPU);
    }

    private static Chunk host(int context) {
        return decode(1, context, AttentionSite.CPU_FROM_HOST);
    }

    @Test
    void attentionOfBothSidesOverlapsInALayer() {
        Times hidden = times(gpu(1000), host(40));
        assertThat(hidden.seconds()).as("the CPU's 4 + 2 hide behind 10").isCloseTo(2 * (10 + 10.5), within(1e-6));
        assertThat(hidden.waited()).isZero();
        Times late = times(gpu(1000), host(120));
        assertThat(late.seconds()).as("the GPU waits for 12 + 2").isCloseTo(2 * (10 + 14), within(1e-6));
        assertThat(late.waited()).isCloseTo(2 * 3.5, within(1e-6));
    }

    @Test
    void hostTokensTakeTheGpusTime() {
        String sending = PROFILE + "token-overhead 0.25\n";
        SubBatch one = new SubBatch(List.of(gpu(1000), host(10), host(10), host(10)));
        assertThat(times(sending, List.of(one)).seconds()).isCloseTo(2 * (10 + 10.5 + 3 * 0.25), within(1e-6));
        assertThat(times(sending, two(gpu(1000), host(10))).seconds()).isCloseTo(2 * (31 + 0.25), within(1e-6));
    }

    /** The GPU takes 10 for the linear work of each sub-batch, 10 for the attention of its decode, and twice 0.5. */
    @Test
    void twoSubBatchesWaitForTheCpu() {
        Chunk prompt = new Chunk(0, 999, new int[1], new int[200], AttentionSite.GPU_FROM_GPU, Optional.empty());
        Times hidden = times(two(gpu(1000), host(50)));
        assertThat(hidden.seconds()).isCloseTo(2 * 31, within(1e-6));
        assertThat(hidden.waited()).isCloseTo(0, within(1e-6));
        Times last = times(two(prompt, host(90)));
        assertThat(last.seconds())
                .as("in the last layer the prompt's attention alone, 1, hides the CPU's 9 + 2")
                .isCloseTo(2 * 22 + 10, within(1e-6));
        assertThat(last.waited()).isCloseTo(10, within(1e-6));
        Times late = times(two(gpu(1000), host(1500)));
        assertThat(late.seconds())
                .as("a sub-batch to the CPU and back: 20 + 150 + 2")
                .isCloseTo(2 * 172, within(1e-6));
        assertThat(late.waited()).isCloseTo(2 * (172 - 31), within(1e-6));
    }

    private static List<SubBatch> two(Chunk first, Chunk second) {
        return List.of(new SubBatch(List.of(first)), new SubBatch(List.of(second)));
    }

    /** GEMMs take a second per row and layer, all else nothing. */
    private static final String BY_ROWS = PROFILE.replace("linear 1 10", "linear 1 1")
            .replace("linear 1000 10", "linear 1000 1000")
            .replaceAll("(attention\\S* \\d+) \\S+", "$1 1e-9")
            .replaceAll("(overhead) \\S+", "$1 0");

    /** Sub-batches have no graph, but their GEMMs copy eight rows at a time; a host token alone takes 8 s per layer. */
    @ParameterizedTest
    @CsvSource({"3, 4, 8", "33, 48, 40", "65, 96, 72", "129, 160, 136", "193, 256, 256"})
    void oneBatchIsPaddedToTheSizesOfGraphs(int rows, double oneBatch, double subBatch) {
        List<Chunk> decodes = Collections.nCopies(rows, gpu(1));
        assertThat(times(BY_ROWS, List.of(new SubBatch(decodes))).seconds()).isCloseTo(2 * oneBatch, within(1e-6));
        List<SubBatch> two = List.of(new SubBatch(decodes), new SubBatch(List.of(host(1))));
        assertThat(times(BY_ROWS, two).seconds()).isCloseTo(2 * (subBatch + 8), within(1e-6));
    }
}
