package dev.tandem.bench.reproduce;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;

/** Parts of figures, and the engines of their systems on real hardware. */
class SelectionTest {
    private static Selection selection(int requests, List<Double> x, List<String> panels) {
        return new Selection(OptionalInt.of(requests), x, List.of(7L), panels);
    }

    @Test
    void aPartHasItsPanelsAndTheClaimsOfTheirCurves() {
        Figure whole = Figure.of("neo", "fig9");
        Figure part = selection(20, List.of(50.0, 400.0), List.of("t4")).of(whole);

        assertThat(part.panels()).extracting(Panel::name).containsExactly("t4");
        assertThat(part.panels().getFirst().requests()).isEqualTo(20);
        assertThat(part.panels().getFirst().systems())
                .extracting(ComparedSystem::x)
                .containsOnly(List.of(50.0, 400.0));
        assertThat(part.seeds()).containsExactly(7L);
        assertThat(part.claims()).extracting(Claim::words).containsExactly("up to 7.5 times the throughput on T4");
        assertThat(Selection.WHOLE.of(whole)).isEqualTo(whole);
        assertThat(selection(20, List.of(50.0), List.of("t4")).options())
                .isEqualTo(" --panel 't4' --requests 20 --x 50 --seeds 7");
    }

    @Test
    void aPartHasNumbersAndNoVerdicts() throws InterruptedException {
        Reproduction part = Reproduction.simulate(
                        List.of(Figure.of("neo", "fig9")),
                        List.of(Fidelity.ARTIFACT),
                        selection(20, List.of(50.0), List.of("t4", "a10g")),
                        2,
                        reproduction -> {})
                .getFirst();

        assertThat(part.points()).hasSize(4);
        assertThat(part.verdicts()).hasSize(5).allSatisfy(verdict -> {
            assertThat(verdict.outcome()).isEqualTo(Verdict.Outcome.PART_SIMULATED);
            assertThat(verdict.reason()).isEmpty();
            assertThat(verdict.because()).startsWith("part simulated: ours is ");
        });
        assertThat(part.verdicts())
                .extracting(Verdict::because)
                .anySatisfy(because ->
                        assertThat(because).contains("ours is not known, because this run has no point for it"));
    }

    @Test
    void tooFewRequestsAreRefused() {
        assertThatThrownBy(() -> selection(9, List.of(), List.of()))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--requests 9");
    }

    /** Tandem's own strategies take a paper's rules as deviations, and what has no rules has one engine. */
    @Test
    void anEngineHasTheRulesOfASimulation() {
        Panel panel = Figure.of("neo", "fig6c").panels().getFirst();
        EngineSetting alone = EngineSetting.of(panel, panel.system("vllm"), Fidelity.PRINTED);
        assertThat(alone.fidelity()).isEqualTo(Fidelity.TANDEM);
        assertThat(alone.deviations())
                .containsExactly("piggybacked-prefill=false", "queue-bypass=false", "room-to-grow=false");
        assertThat(alone.preemption()).isEqualTo(Preemption.RECOMPUTE);
        assertThat(alone.hostBytes()).isZero();
        assertThat(EngineSetting.of(panel, panel.system("vllm"), Fidelity.ARTIFACT))
                .isEqualTo(alone);

        EngineSetting neo = EngineSetting.of(panel, panel.system("neo"), Fidelity.ARTIFACT);
        assertThat(neo.fidelity()).isEqualTo(Fidelity.ARTIFACT);
        assertThat(neo.deviations()).isEmpty();
        assertThat(neo.preemption()).isEqualTo(Preemption.SWAP);
        assertThat(neo.hostBytes()).isEqualTo(20L << 30);

        EngineSetting ours = EngineSetting.of(panel, panel.system("neo"), Fidelity.TANDEM);
        assertThat(ours.strategy()).isEqualTo(Strategy.ADAPTIVE_PIPELINING);
        assertThat(ours.fidelity()).isEqualTo(Fidelity.TANDEM);
        assertThat(ours.deviations()).isEmpty();

        ComparedSystem swiftllm = new ComparedSystem("swiftllm", "swiftllm", 1, List.of(1.0));
        assertThat(EngineSetting.of(panel, swiftllm, Fidelity.PRINTED))
                .isEqualTo(EngineSetting.of(panel, swiftllm, Fidelity.ARTIFACT));
    }
}
