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
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Quantities of known curves, and the shapes of shortened figures. */
class ReproductionTest {
    private static final CurveName OURS = new CurveName("t4", "neo");
    private static final CurveName BASE = new CurveName("t4", "vllm");
    private static final Band ALL = new Band(Double.NEGATIVE_INFINITY, Double.POSITIVE_INFINITY);

    private static final Origin WHOLE = new Origin.Simulated(Selection.WHOLE);

    private static Curves throughput() {
        return new Curves(
                true,
                Map.of(
                        OURS, new TreeMap<>(Map.of(1.0, 2.0, 2.0, 6.0, 3.0, 2.0)),
                        BASE, new TreeMap<>(Map.of(1.0, 2.0, 2.0, 2.0, 3.0, 1.0))));
    }

    private static double known(Curves curves, Quantity quantity) {
        Estimate estimate = curves.value(quantity);
        assertThat(estimate.known()).as(quantity.toString()).isTrue();
        return estimate.low();
    }

    @Test
    void gainsAreRatiosOfThroughput() {
        assertThat(known(throughput(), new Quantity.Gain(OURS, BASE, 2))).isEqualTo(3);
        assertThat(known(throughput(), new Quantity.MaxGain(OURS, BASE, ALL))).isEqualTo(3);
        assertThat(known(throughput(), new Quantity.MinGain(OURS, BASE, new Band(2, 3))))
                .isEqualTo(2);
        assertThat(known(throughput(), new Quantity.Rise(OURS, BASE))).isEqualTo(3);
        assertThat(known(throughput(), new Quantity.Fall(OURS, BASE))).isEqualTo(1.5);
        assertThat(known(throughput(), new Quantity.Gain(OURS, BASE, 9))).isNaN();
    }

    /** Ours crosses 1 s at 1.5 requests/s; the baseline has 2 s at its first rate. */
    private static Curves latency() {
        return new Curves(
                false, Map.of(OURS, new TreeMap<>(Map.of(1.0, 0.5, 2.0, 1.5)), BASE, new TreeMap<>(Map.of(0.5, 2.0))));
    }

    @Test
    void loadIsWhereTheLatencyCrossesTheLimit() {
        assertThat(known(latency(), new Quantity.Load(OURS, 1))).isEqualTo(1.5);
        assertThat(known(latency(), new Quantity.Load(OURS, 0.5))).isEqualTo(1);
    }

    @Test
    void aCurveThatDoesNotCrossTheLimitBoundsTheLoad() {
        assertThat(latency().value(new Quantity.Load(OURS, 9))).isEqualTo(new Estimate(2, Double.POSITIVE_INFINITY));
        assertThat(latency().value(new Quantity.Load(BASE, 1))).isEqualTo(new Estimate(0, 0.5));
        assertThat(latency().value(new Quantity.LoadGain(OURS, BASE, 1)))
                .isEqualTo(new Estimate(3, Double.POSITIVE_INFINITY));
        assertThat(latency().value(new Quantity.LoadGain(BASE, OURS, 1))).isEqualTo(new Estimate(0, 0.5 / 1.5));
        assertThat(latency().value(new Quantity.LoadGain(OURS, BASE, 9)))
                .isEqualTo(new Estimate(0, Double.POSITIVE_INFINITY));
    }

    private static Verdict verdict(Quantity quantity, Band holds, Curves... seeds) {
        Claim claim = new Claim("saturates", "5", Double.NaN, quantity, holds, new Band(1, 9), List.of());
        return Verdict.of(claim, Fidelity.PRINTED, List.of(seeds), WHOLE);
    }

    @Test
    void aVerdictSaysThatTheLimitWasNotCrossed() {
        String why = ", because a curve does not cross the latency limit; asked for is ";
        Verdict above = verdict(new Quantity.Load(OURS, 9), new Band(1.5, 2.5), latency());
        assertThat(above.outcome()).isEqualTo(Verdict.Outcome.NOT_REPRODUCED);
        assertThat(above.because()).endsWith(": ours saturates above 2" + why + "1.5 to 2.5");
        assertThat(verdict(new Quantity.Load(OURS, 9), new Band(2, Double.POSITIVE_INFINITY), latency())
                        .outcome())
                .isEqualTo(Verdict.Outcome.REPRODUCED);

        Verdict below = verdict(new Quantity.Load(BASE, 1), new Band(0, 1), latency());
        assertThat(below.because()).isEqualTo("reproduced: ours saturates below 0.5" + why + "0 to 1");
        assertThat(verdict(new Quantity.LoadGain(OURS, BASE, 9), new Band(0, 9), latency())
                        .because())
                .isEqualTo("not reproduced, and no reason is recorded: ours is unknown" + why + "0 to 9");
    }

    @Test
    void oneSeedThatDoesNotCrossTheLimitBoundsTheMean() {
        Curves other = new Curves(false, Map.of(OURS, new TreeMap<>(Map.of(1.0, 0.5, 3.0, 0.9))));

        Verdict verdict = verdict(new Quantity.Load(OURS, 1), new Band(2, Double.POSITIVE_INFINITY), latency(), other);

        assertThat(verdict.because()).startsWith("reproduced: ours saturates above 2.25, ");
        assertThat(verdict.min()).isEqualTo(1.5);
        assertThat(verdict.max()).isInfinite();
    }

    @Test
    void theMeanOfTheSeedsDecides() {
        Verdict verdict = verdict(Fidelity.PRINTED, new Band(2.5, 3.5), List.of());

        assertThat(verdict.outcome()).isEqualTo(Verdict.Outcome.REPRODUCED);
        assertThat(verdict.because()).isEqualTo("reproduced: ours is 3, the paper prints 2; asked for is 2.5 to 3.5");
    }

    /** Ours is 3, and the paper prints 2. */
    private static Verdict verdict(Fidelity fidelity, Band holds, List<Reason> reasons) {
        Claim claim = new Claim("twice", "5", 2, new Quantity.Gain(OURS, BASE, 2), holds, new Band(1, 9), reasons);
        return Verdict.of(claim, fidelity, List.of(throughput()), WHOLE);
    }

    @Test
    void onAnotherMachineThereIsANumberAndNoVerdict() {
        Origin here = new Origin.Executed(Selection.WHOLE, "gpu", "H100");
        Quantity gain = new Quantity.Gain(OURS, BASE, 2);
        Band holds = new Band(2.5, 3.5);
        Reason slow = new Reason(Set.of(Fidelity.PRINTED), Reason.Basis.MEASURED, "the CPU is slow");

        Claim printed = new Claim("twice", "5", 2, gain, holds, holds, List.of(slow));
        Verdict number = Verdict.of(printed, Fidelity.PRINTED, List.of(throughput()), here);
        assertThat(number.outcome()).isEqualTo(Verdict.Outcome.MEASURED_HERE);
        assertThat(number.because()).isEqualTo("measured here: ours is 3, the paper prints 2; asked for is 2.5 to 3.5");

        Claim shape = new Claim("faster", "5", Double.NaN, gain, new Band(4, 5), holds, List.of());
        assertThat(Verdict.of(shape, Fidelity.PRINTED, List.of(throughput()), here)
                        .because())
                .isEqualTo("measured here: ours is 3; asked for is 4 to 5; on this machine that does not hold");
    }

    @Test
    void aVerdictSaysItsReasonAndHowItIsKnown() {
        Band other = new Band(1.5, 2.5);
        Reason slow = new Reason(Set.of(Fidelity.PRINTED), Reason.Basis.MEASURED, "the CPU is slow");

        assertThat(verdict(Fidelity.PRINTED, other, List.of(slow)).because())
                .isEqualTo("direction only, because the CPU is slow (measured): ours is 3, the paper prints 2;"
                        + " asked for is 1.5 to 2.5");
        assertThat(verdict(Fidelity.ARTIFACT, other, List.of(slow)).because())
                .startsWith("direction only, and no reason is recorded: ");
        assertThat(verdict(Fidelity.TANDEM, other, List.of(slow)).because())
                .startsWith("direction only, because Tandem's own strategies ran, ");
    }

    @Test
    void aReasonOfAReproducedClaimIsOutOfDate() {
        Reason slow = new Reason(Set.of(Fidelity.PRINTED), Reason.Basis.MEASURED, "the CPU is slow");
        Verdict verdict = verdict(Fidelity.PRINTED, new Band(2.5, 3.5), List.of(slow));

        assertThat(verdict.reason()).isEmpty();
        assertThat(verdict.because()).endsWith("is out of date and must be removed: the CPU is slow");
    }

    /** A figure with one claim and what it needs: its curves, with fewer requests, one seed and a few x. */
    private static Figure shortened(Figure figure, String claim, int requests, List<Double> x) {
        Claim chosen = figure.claims().stream()
                .filter(one -> one.words().equals(claim))
                .findFirst()
                .orElseThrow();
        List<CurveName> curves = chosen.quantity().curves();
        return new Figure(
                figure.id(),
                figure.title(),
                figure.experiment(),
                figure.panels().stream()
                        .filter(panel ->
                                curves.stream().anyMatch(curve -> curve.panel().equals(panel.name())))
                        .map(panel -> new Panel(
                                panel.name(),
                                panel.setting(),
                                panel.workload(),
                                requests,
                                panel.rate(),
                                panel.systems().stream()
                                        .filter(system -> curves.contains(new CurveName(panel.name(), system.name())))
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
                List.of(chosen),
                figure.differences());
    }

    private static Reproduction simulate(Figure figure, Fidelity fidelity) throws InterruptedException {
        return Reproduction.simulate(List.of(figure), List.of(fidelity), Selection.WHOLE, 2, reproduction -> {})
                .getFirst();
    }

    /** Orders of systems that the text claims and that whole figures reproduce. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "neo  | fig6a   | PRINTED  |  60 | 1         | at low rates the latency is comparable",
                "neo  | fig6b   | PRINTED  |  60 | 0.4       | at low rates the latency is comparable",
                "neo  | fig7    | PRINTED  | 100 | 50;90 | NEO's latency is comparable to vLLM's at all percentiles",
                "neo  | fig8a   | ARTIFACT |  60 | 1;2       | FastDecode+ has the higher latency",
                "neo  | fig8b   | PRINTED  |  60 | 100;400   | NEO is always better than the baseline",
                "neo  | fig8b   | PRINTED  |  60 | 100;400   | FastDecode+ drops to less than 60 % of the baseline as"
                        + " outputs grow",
                "neo  | fig9    | ARTIFACT | 200 | 200       | up to 7.5 times the throughput on T4",
                "neo  | fig9    | ARTIFACT | 200 | 25;200    | on A10G the gain rises with the output length at first",
                "neo  | fig10b  | ARTIFACT |  60 | 28        | on one A10G SwiftLLM is comparable to vLLM",
                "apex | fig2    | PRINTED  |   1 | 255;512  | the time grows beyond 256 tokens",
                "apex | fig3    | PRINTED  |   1 | 4;32     | the CPU typically has less than 10 % of the GPU's speed",
                "apex | fig6a   | ARTIFACT | 200 | 100      | 84 % to 96 % more throughput than vLLM: at least 84 %",
                "apex | fig6b   | ARTIFACT | 100 | 2500     | LiveBench: 22 % over vLLM",
                "apex | fig7    | ARTIFACT | 200 | 0.8;1.5  | on T4 APEX sustains a higher load than vLLM at a latency"
                        + " of 1 s",
                "apex | fig8    | ARTIFACT | 300 | 500      | up to 89 % over vLLM on A10",
                "apex | fig9    | ARTIFACT |  40 | 200      | the kernel adds nothing at 200 output tokens",
                "apex | speedup | PRINTED  |   1 | 50;800   | on A10 the product rises with the fraction of decoding"
            })
    void aShortenedFigureKeepsTheOrderOfTheSystems(
            String paper, String figure, Fidelity fidelity, int requests, String x, String claim) throws Exception {
        List<Double> chosen = Stream.of(x.split(";")).map(Double::valueOf).toList();

        Verdict verdict = simulate(shortened(Figure.of(paper, figure), claim, requests, chosen), fidelity)
                .verdicts()
                .getFirst();

        assertThat(verdict.outcome()).as(verdict.because()).isNotEqualTo(Verdict.Outcome.NOT_REPRODUCED);
    }

    @Test
    void onTheT4NeoSustainsSeveralTimesTheLoadOfTheGpuAlone(@TempDir Path folder) throws Exception {
        Figure figure = shortened(
                Figure.of("neo", "fig6c"),
                "563 % higher throughput than vLLM at a latency of 1 s",
                200,
                List.of(0.5, 1.0, 2.5));

        List<Reproduction> done = List.of(simulate(figure, Fidelity.ARTIFACT));
        new ReproductionReport(
                        done,
                        new Circumstances("abc1234", "two cores", "./tandem reproduce all", "now", 61.4, 90),
                        List.of())
                .write(folder);

        Curves curves = Curves.of(figure.experiment(), done.getFirst().points());
        assertThat(curves.value(new Quantity.Load(BASE, 1)).high()).isLessThan(1);
        assertThat(curves.value(new Quantity.Load(OURS, 1))).isEqualTo(new Estimate(2.5, Double.POSITIVE_INFINITY));
        assertThat(Files.readString(folder.resolve("index.html")))
                .contains("./tandem reproduce neo fig6c --fidelity artifact")
                .contains("<td>§5.2</td>")
                .contains(done.getFirst().verdicts().getFirst().because());
        assertThat(Files.readAllLines(folder.resolve("points.jsonl"))).hasSize(4);
        assertThat(Files.readString(folder.resolve("verdicts.jsonl")))
                .contains("\"commit\":\"abc1234\",\"machine\":\"two cores\",\"command\":\"./tandem reproduce all\"")
                .contains("\"mean\":null")
                .contains("\"seconds\":61,\"cpu_seconds\":90");
        assertThat(folder.resolve("neo-fig6c-t4.svg")).exists();
    }

    @Test
    void moreHostBandwidthRaisesTheGainOnTheA10g() throws Exception {
        Figure figure = shortened(
                Figure.of("neo", "fig10a"),
                "the peak gain rises with the host's memory bandwidth from g5.4xlarge on",
                400,
                List.of(200.0));

        Curves curves = Curves.of(
                figure.experiment(), simulate(figure, Fidelity.ARTIFACT).points());

        assertThat(known(curves, new Quantity.PeakOrder(List.of("g5.4xlarge", "g5.8xlarge"), "neo", "swiftllm")))
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
