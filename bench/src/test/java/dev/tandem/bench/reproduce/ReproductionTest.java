package dev.tandem.bench.reproduce;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.hardware.ModelShape;
import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.bench.reproduce.Quantity.CurveName;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.strategy.Fidelity;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Quantities of known curves, and the shapes of shortened figures. */
class ReproductionTest {
    private static final CurveName OURS = new CurveName("t4", "neo");
    private static final CurveName BASE = new CurveName("t4", "vllm");
    private static final Band ALL = new Band(Double.NEGATIVE_INFINITY, Double.POSITIVE_INFINITY);

    private static Curves throughput() {
        return new Curves(
                true,
                Map.of(
                        OURS, new TreeMap<>(Map.of(1.0, 2.0, 2.0, 6.0, 3.0, 2.0)),
                        BASE, new TreeMap<>(Map.of(1.0, 2.0, 2.0, 2.0, 3.0, 1.0))));
    }

    @Test
    void gainsAreRatiosOfThroughput() {
        assertThat(throughput().value(new Quantity.Gain(OURS, BASE, 2))).isEqualTo(3);
        assertThat(throughput().value(new Quantity.MaxGain(OURS, BASE, ALL))).isEqualTo(3);
        assertThat(throughput().value(new Quantity.MinGain(OURS, BASE, new Band(2, 3))))
                .isEqualTo(2);
        assertThat(throughput().value(new Quantity.Rise(OURS, BASE))).isEqualTo(3);
        assertThat(throughput().value(new Quantity.Fall(OURS, BASE))).isEqualTo(1.5);
        assertThat(throughput().value(new Quantity.Gain(OURS, BASE, 9))).isNaN();
    }

    @Test
    void loadIsWhereTheLatencyCrossesTheLimit() {
        Curves latency = new Curves(
                false, Map.of(OURS, new TreeMap<>(Map.of(1.0, 0.5, 2.0, 1.5)), BASE, new TreeMap<>(Map.of(0.5, 2.0))));

        assertThat(latency.value(new Quantity.Load(OURS, 1))).isEqualTo(1.5);
        assertThat(latency.value(new Quantity.Load(OURS, 9))).isEqualTo(2);
        assertThat(latency.value(new Quantity.Load(BASE, 1))).isZero();
    }

    @Test
    void theMeanOfTheSeedsDecides() {
        Claim claim = new Claim("twice", "5", 2, new Quantity.Gain(OURS, BASE, 2), new Band(2.5, 3.5), new Band(1, 9));

        assertThat(Verdict.of(claim, Fidelity.PRINTED, List.of(throughput())).outcome())
                .isEqualTo(Verdict.Outcome.REPRODUCED);
        assertThat(Verdict.of(claim, Fidelity.PRINTED, List.of(throughput())).because())
                .isEqualTo("reproduced, because ours is 3, the paper prints 2; asked for is 2.5 to 3.5");
    }

    /** A figure with fewer requests, one seed and a few horizontal values. */
    private static Figure shortened(Figure figure, int requests, List<Double> x) {
        return new Figure(
                figure.id(),
                figure.title(),
                figure.experiment(),
                figure.panels().stream()
                        .map(panel -> new Panel(
                                panel.name(),
                                panel.setting(),
                                panel.workload(),
                                requests,
                                panel.rate(),
                                panel.systems().stream()
                                        .map(system -> new ComparedSystem(
                                                system.name(),
                                                system.strategy(),
                                                system.hostAttention(),
                                                system.x().stream()
                                                        .filter(x::contains)
                                                        .toList()))
                                        .toList(),
                                panel.marks()))
                        .toList(),
                List.of(1L),
                figure.claims().subList(0, 1),
                figure.differences());
    }

    @Test
    void onTheT4NeoSustainsSeveralTimesTheLoadOfTheGpuAlone(@TempDir Path folder) throws Exception {
        Figure figure = shortened(Figure.of("neo", "fig6c"), 200, List.of(0.5, 1.0, 2.5));

        List<Reproduction> done =
                Reproduction.simulate(List.of(figure), List.of(Fidelity.ARTIFACT), 2, reproduction -> {});
        new ReproductionReport(done).write(folder, "./tandem reproduce FIGURE");

        Curves curves = Curves.of(figure.experiment(), done.getFirst().points());
        assertThat(curves.value(new Quantity.Load(BASE, 1))).isLessThan(1);
        assertThat(curves.value(new Quantity.Load(OURS, 1))).isEqualTo(2.5);
        assertThat(Files.readString(folder.resolve("index.html")))
                .contains("./tandem reproduce neo fig6c")
                .contains(done.getFirst().verdicts().getFirst().because());
        assertThat(Files.readAllLines(folder.resolve("points.jsonl"))).hasSize(4);
        assertThat(folder.resolve("neo-fig6c-t4.svg")).exists();
    }

    @Test
    void moreHostBandwidthRaisesTheGainOnTheA10g() throws Exception {
        Figure figure = shortened(Figure.of("neo", "fig10a"), 400, List.of(200.0));

        Curves curves = Curves.of(
                figure.experiment(),
                Reproduction.simulate(List.of(figure), List.of(Fidelity.ARTIFACT), 2, reproduction -> {})
                        .getFirst()
                        .points());

        assertThat(curves.value(new Quantity.PeakOrder(List.of("g5.2xlarge", "g5.8xlarge"), "neo", "swiftllm")))
                .isGreaterThan(1);
    }

    /** Of 54 blocks of 32 layers, 32/33 are 52. A prompt of 160 tokens borrows two blocks. */
    @ParameterizedTest
    @CsvSource({"PRINTED, 52, 0", "ARTIFACT, 52, 0", "TANDEM, 54, 2"})
    void onlyUnderTheRulesOfAPaperIsStagingTakenFromThePool(Fidelity fidelity, int pool, int borrowed) {
        Panel panel = Figure.of("neo", "fig6c").panels().getFirst();
        String file = "models/" + panel.setting().model() + ".json";
        ModelShape model = ModelShape.read(Figure.resource(file), file);
        Profile profile = Hardware.named(panel.setting().hardware()).profile(model);
        PanelEngine engine = PanelEngine.of(panel, panel.system("neo"), fidelity, profile, model);

        assertThat(engine.limits(false).gpuBlocks()).isEqualTo(54);
        ExecutorLimits limits = engine.limits(true);
        assertThat(limits.gpuBlocks()).isEqualTo(pool);
        assertThat(limits.staging().blocks(limits.staging().need(0, 160))).isEqualTo(borrowed);
    }

    @Test
    void anImprovedStrategyNeverHasAPapersName() {
        ComparedSystem neo = Figure.of("neo", "fig6c").panels().getFirst().system("neo");

        assertThat(PanelEngine.name(neo, Fidelity.ARTIFACT)).isEqualTo("neo");
        assertThat(PanelEngine.name(neo, Fidelity.TANDEM)).isEqualTo("adaptive-pipelining");
    }
}
