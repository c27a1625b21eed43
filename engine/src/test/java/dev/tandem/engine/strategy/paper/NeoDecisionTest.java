package dev.tandem.engine.strategy.paper;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.Pipeline;
import dev.tandem.engine.strategy.SameLayer;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What NEO's step 6 counts, compares and says. {@link TestProfile} has the times. */
class NeoDecisionTest {
    private static final Budget BUDGET = new Budget(400, 120, 400);
    private static final Deviations PRINTED = Deviations.of(Fidelity.PRINTED);

    private static Neo neo(Deviations deviations, boolean sameLayer) {
        StepPredictor predictor = new StepPredictor(TestProfile.model(), true, 0);
        Pipeline pipeline = new Pipeline(BUDGET, predictor, TierRules.neutral(), deviations, true);
        return new Neo(pipeline, predictor, sameLayer ? Optional.of(new SameLayer(pipeline)) : Optional.empty());
    }

    private static Candidate candidate(Decision why, Shape shape) {
        return why.candidates().stream()
                .filter(candidate -> candidate.shape() == shape)
                .findFirst()
                .orElseThrow();
    }

    @Test
    void aStepWithoutHostTokensSaysThatNoneHides() {
        Scene scene = new Scene(20, 20, BUDGET);
        scene.gpu(9);
        Decision why = new Decision();
        neo(PRINTED, false).draft(scene.state, why);
        assertThat(why.reason()).isEqualTo("neo: no CPU attention hides behind the GPU's work, so gpu-only");
    }

    /** Step 5 keeps all prompts while the CPU idles, so only step 6 can leave one out: 201 rows are at least 128. */
    @ParameterizedTest
    @CsvSource({"false, [r0 r1+100host r2+100host r3+100host]", "true, [r0 r1+100host r2+100host]"})
    void aGpuOnlyStepWithoutHostTokensIsStrippedToo(boolean strips, String expected) {
        Scene scene = new Scene(4, 200, BUDGET).limit(300);
        scene.gpu(13);
        for (int i = 0; i < 3; i++) {
            scene.waiting(100);
        }
        Deviations rules = PRINTED.with(Deviation.STEP_5_KEEPS, "idle-cpu")
                .with(Deviation.LIMITED_HOST_PROMPTS, true)
                .with(Deviation.STEP_6_STRIPS_PROMPTS, strips);
        assertThat(scene.draft(neo(rules, false))).isEqualTo(expected);
    }

    @Test
    void theCandidatesAreBothSchedulesWithAllTheirTokens() {
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(97);
        for (int i = 0; i < 4; i++) {
            scene.host(25);
        }
        Decision why = new Decision();
        neo(PRINTED, false).draft(scene.state, why);
        assertThat(candidate(why, Shape.GPU_ONLY).rows()).isEqualTo(1);
        assertThat(candidate(why, Shape.PIPELINE).rows()).isEqualTo(5);
        assertThat(candidate(why, Shape.PIPELINE).cpuRows()).isEqualTo(4);
        assertThat(candidate(why, Shape.PIPELINE).requests()).isEqualTo(5);
        assertThat(why.reason()).as("5 in 2 * 20.97, 1 in 2 * 10.97").endsWith("gpu-only 0.0, so asymmetric");
    }

    /** Two GPU decodes of 150, so two host tokens count for less below 2 * 0.7 * 150 = 210 tokens. */
    @ParameterizedTest
    @CsvSource({"112, 4", "110, 3.3933333"})
    void shortHostTokensCountByTheMeanContextOfTheGpusDecodes(int context, double requests) {
        Scene scene = new Scene(78, 400, BUDGET).limit(1000);
        scene.gpu(150);
        scene.gpu(150);
        scene.host(99);
        scene.host(context);
        Decision why = new Decision();
        neo(PRINTED.with(Deviation.STEP_6_COUNTS_CONTEXT, true), false).draft(scene.state, why);
        assertThat(candidate(why, Shape.PIPELINE).requests()).isCloseTo(requests, within(1e-6));
    }

    @Test
    void sameLayerTokensOfShortContextCountForLess() {
        Scene scene = new Scene(253, 3000, BUDGET).limit(1010);
        scene.gpu(1000);
        scene.host(40);
        scene.host(40);
        Decision why = new Decision();
        neo(Deviations.of(Fidelity.TANDEM), true).draft(scene.state, why);
        assertThat(candidate(why, Shape.SAME_LAYER).requests())
                .as("1 + 80 / 1000")
                .isCloseTo(1.08, within(1e-6));
        assertThat(candidate(why, Shape.PIPELINE).requests()).isCloseTo(1.08, within(1e-6));
    }
}
