package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/**
 * At which layers a simulated step computes slots; a row takes a second per layer, and so does a layer without rows.
 */
class SimulatedSlotsTest {
    private static final int LAYERS = 8;
    private static final String PROFILE = """
            name test
            layers 8
            linear 1 1
            linear 1000 1000
            prefill-attention 1 1e-9
            gpu-attention 1 1e-9
            cpu-attention/1 1 1e-9
            transfer 1 1e-9
            pre-layer 1 1e-9
            post-layer 1 1e-9
            step-overhead 0
            """;

    private final VirtualClock clock = new VirtualClock();
    private final SimulatedExecutor executor =
            new SimulatedExecutor(limits(), new CostModel(Profile.parse(PROFILE, "the test profile")), clock);
    private int steps;

    private static ExecutorLimits limits() {
        return ExecutorLimits.builder()
                .vocabulary(10)
                .contextTokens(2000)
                .blockTokens(16)
                .gpuBlocks(200)
                .hostBlocks(200)
                .maxBatchTokens(1000)
                .layers(LAYERS)
                .kvBytesPerToken(1)
                .inFlight(256, 256, true)
                .build();
    }

    private static TokenSampler sampler() {
        return new TokenSampler(SamplingParams.builder().build(), new int[1], Set.of(), 1);
    }

    /** Seconds of a step with GPU decodes in each sub-batch, in which so many tokens enter layer 0 or go on. */
    private double seconds(int entering, int goingOn, int... decodes) {
        List<Admission> admissions = IntStream.range(0, entering)
                .mapToObj(i -> new Admission(1000 + i, 10, 0, new int[1], sampler()))
                .toList();
        return seconds(admissions, goingOn, List.of(), decodes);
    }

    private double seconds(List<Admission> admissions, int goingOn, List<Long> finishing, int... decodes) {
        List<SubBatch> batches = IntStream.of(decodes)
                .mapToObj(count -> new SubBatch(IntStream.range(0, count)
                        .mapToObj(i -> new Chunk(
                                i, 10, new int[1], new int[1], AttentionSite.GPU_FROM_GPU, Optional.of(sampler())))
                        .toList()))
                .toList();
        long before = clock.nanos();
        executor.submit(new StepPlan(steps++, List.of(), batches, admissions, goingOn, List.of(), finishing));
        executor.poll();
        return (clock.nanos() - before) / 1e9;
    }

    @Test
    void fewSlotsAreComputedAtAllLayers() {
        assertThat(seconds(50, 0)).isCloseTo(LAYERS * 64, within(1e-3));
    }

    @Test
    void manySlotsAreComputedWhereTokensMayReturn() {
        assertThat(seconds(100, 0)).as("100 tokens enter layer 0").isCloseTo(128 + LAYERS - 1, within(1e-3));
        assertThat(seconds(0, 100)).as("they stand at layer 0").isCloseTo(3 * 128 + LAYERS - 3, within(1e-3));
    }

    @Test
    void aLayerHasAsManySlotsAsTokensThatMayReturnThere() {
        assertThat(seconds(100, 0)).isCloseTo(128 + LAYERS - 1, within(1e-3));
        assertThat(seconds(20, 100))
                .as("20 tokens enter, and 100 stand at layer 0")
                .isCloseTo(3 * 128 + LAYERS - 3, within(1e-3));
        assertThat(seconds(0, 120))
                .as("20 tokens may return at layer 0, 100 at the next two and 80 at layer 3")
                .isCloseTo(24 + 2 * 128 + 96 + LAYERS - 4, within(1e-3));
    }

    /** With more rows than a graph has, or in two sub-batches, steps compute slots where others do. */
    @Test
    void manySlotsAreComputedWhereTokensMayReturnBesideManyRowsToo() {
        assertThat(seconds(100, 0, 640)).isCloseTo(LAYERS * 640 + 128, within(1e-3));
        assertThat(seconds(0, 100, 640)).as("they stand at layer 0").isCloseTo(LAYERS * 640 + 3 * 128, within(1e-3));
        assertThat(seconds(0, 100, 64, 64))
                .as("they stand at layer 1, where 164 rows count as 168 for 64")
                .isCloseTo(LAYERS * 128 + 3 * 104, within(1e-3));
    }

    @Test
    void aStepThatFinishesTokensComputesManySlotsAtAllLayers() {
        assertThat(seconds(100, 0, 64)).isCloseTo(LAYERS * 64 + 128, within(1e-3));
        assertThat(seconds(List.of(), 99, List.of(1000L), 64))
                .as("the token and the others stand at layer 0")
                .isCloseTo(LAYERS * (64 + 192), within(1e-3));
    }
}
