package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.executor.CheapRows;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.select.Strategy;
import org.junit.jupiter.api.Test;

/** Without chunked prefill a prompt starts as a whole, also where steps with prompts would be kept short. */
class WholePromptsTest {
    private static final Budget BUDGET = new Budget(600, 20, 600);
    private static final int PROMPT = 400;

    private static StepDraft draft(Strategy strategy, Scene scene, boolean chunked) {
        var options = Strategy.Options.builder(BUDGET)
                .rules(new TierRules(new LatencyTargets(0, 1), 0, 0))
                .deviations(Deviations.of(Fidelity.TANDEM).with(Deviation.CHUNKED_PREFILL, chunked))
                .inFlight(InFlightLimits.UNLIMITED)
                .piggybacking(CheapRows.upTo(64))
                .build();
        return strategy.policy(options, TestProfile.model()).draft(scene.state, new Decision());
    }

    /** A GPU with ten sequences and, for a prompt of 400 tokens, with room that leaves it nearly full. */
    private static Scene decodes() {
        Scene scene = new Scene(130, 400, BUDGET).limit(1000);
        for (int i = 0; i < 10; i++) {
            scene.gpu(5);
        }
        scene.waiting(PROMPT);
        return scene;
    }

    @Test
    void aWholePromptMayBeLongerThanAPiggybackedStep() {
        assertThat(prefillRows(draft(Strategy.ASYNC_OVERLAP, decodes(), true))).isBetween(1, PROMPT - 1);
        assertThat(prefillRows(draft(Strategy.ASYNC_OVERLAP, decodes(), false))).isEqualTo(PROMPT);
    }

    @Test
    void aWholePromptMayBeLongerThanTheTargetAllows() {
        assertThat(prefillRows(draft(Strategy.ASYMMETRIC, decodes(), true))).isBetween(1, PROMPT - 1);
        assertThat(prefillRows(draft(Strategy.ASYMMETRIC, decodes(), false))).isEqualTo(PROMPT);
    }

    private static int prefillRows(StepDraft draft) {
        return draft.load(0).rows() - draft.load(0).gpuRows() - draft.load(0).cpuRows();
    }
}
