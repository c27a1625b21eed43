package dev.tandem.engine.strategy.select;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.CheapRows;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.Asymmetric;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Which deviations and options reach the policies of a strategy. */
class StrategyTest {
    private static final Budget BUDGET = new Budget(64, 32, 64);

    @Test
    void apexRefusesSameLayerTokensBecauseItMakesNone() {
        Deviations printed = Deviations.of(Fidelity.PRINTED);
        assertThatThrownBy(() -> Strategy.APEX.with(printed, "same-layer=true"))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--deviation same-layer changes nothing in --strategy apex");
        assertThat(Strategy.NEO.with(printed, "same-layer=true").has(Deviation.SAME_LAYER))
                .isTrue();
    }

    @Test
    void asymmetricFillsTheHostWithoutTheRuleOfSameLayerTokens() {
        Asymmetric asymmetric =
                (Asymmetric) Strategy.ASYMMETRIC.policy(Strategy.Options.of(BUDGET), TestProfile.model());
        assertThat(asymmetric.pipeline().deviations().has(Deviation.SAME_LAYER)).isFalse();
    }

    @Test
    void withoutATargetAdaptiveMeasuresAdaptivePipeliningToo() {
        assertThat(arms(0))
                .extracting(Arm::name)
                .containsExactly("apex's rules", "async-overlap alone", "adaptive-pipelining");
        assertThat(arms(250_000_000)).extracting(Arm::name).containsExactly("apex's rules", "async-overlap alone");
    }

    @Test
    void theArmOfAdaptivePipeliningDraftsItsStepsOnceInFlightTokensHaveReturned() {
        Scene scene = new Scene(25, 400, BUDGET).limit(1000);
        scene.gpu(9);
        scene.host(20);
        Policy arm = arms(0).getLast().policy();
        Policy pipelining = Strategy.ADAPTIVE_PIPELINING.policy(Strategy.Options.of(BUDGET), TestProfile.model());
        Decision why = new Decision();
        Decision expected = new Decision();
        StepDraft draft = arm.draft(scene.state, why);
        assertThat(draft.shape())
                .isEqualTo(pipelining.draft(scene.state, expected).shape())
                .isNotEqualTo(Shape.ASYNC);
        assertThat(why.reason()).isEqualTo(expected.reason());
        scene.inFlight(20);
        StepDraft returning = arm.draft(scene.state, new Decision());
        assertThat(returning.shape()).isEqualTo(Shape.ASYNC);
        assertThat(returning.admissions()).isEmpty();
    }

    private static List<Arm> arms(long perTokenNanos) {
        TierRules rules = new TierRules(new LatencyTargets(0, perTokenNanos), 0, 0);
        return Strategy.ADAPTIVE.arms(
                Strategy.Options.builder(BUDGET).rules(rules).build(), TestProfile.model());
    }

    @Test
    void theDrainStartsPromptsByTheRulesOfGpuOnly() {
        Deviations inOrder = Deviations.of(Fidelity.TANDEM)
                .with(Deviation.QUEUE_BYPASS, false)
                .with(Deviation.PIGGYBACKED_PREFILL, false)
                .with(Deviation.ROOM_TO_GROW, false);
        Strategy.Options options = Strategy.Options.builder(BUDGET)
                .deviations(inOrder)
                .queueBypasses(5)
                .piggybacking(CheapRows.upTo(16))
                .build();
        GpuOnly drain = Strategy.ADAPTIVE.drain(options, TestProfile.model()).gpuOnly();
        assertThat(drain).isEqualTo(Strategy.gpuOnly(options));
        assertThat(drain.queueBypasses()).isZero();
        assertThat(drain.piggybacking()).isSameAs(PiggybackedPrefill.NONE);
        assertThat(drain.forecasts()).isFalse();
    }
}
