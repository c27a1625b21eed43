package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.bench.WaitingClock;
import dev.tandem.bench.reproduce.Band;
import dev.tandem.bench.reproduce.Circumstances;
import dev.tandem.bench.reproduce.Claim;
import dev.tandem.bench.reproduce.Execution;
import dev.tandem.bench.reproduce.Experiment;
import dev.tandem.bench.reproduce.Figure;
import dev.tandem.bench.reproduce.Panel;
import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.bench.reproduce.Panel.Setting;
import dev.tandem.bench.reproduce.Quantity;
import dev.tandem.bench.reproduce.Quantity.CurveName;
import dev.tandem.bench.reproduce.Reproduction;
import dev.tandem.bench.reproduce.ReproductionReport;
import dev.tandem.bench.reproduce.Selection;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.strategy.Fidelity;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Figures of a tiny model, executed on the CPU executor. */
class ReproduceExecutionTest {
    private static final Band ALL = new Band(Double.NEGATIVE_INFINITY, Double.POSITIVE_INFINITY);
    private static final Band ABOVE_0 = new Band(0, Double.POSITIVE_INFINITY);
    /** 24 blocks hold few of the requests, so that strategies with a host tier use it. */
    private static final Setting TINY = new Setting("tiny", "t4-g4dn.4xlarge", 24, 8L << 20, 256, 16);

    private static Figure figure(Experiment experiment, List<Panel> panels, List<Claim> claims) {
        return new Figure(
                new Figure.Id("neo", "tiny"), "A tiny model", experiment, panels, List.of(1L), claims, List.of("none"));
    }

    private static Panel panel(String name, Setting setting, List<ComparedSystem> systems) {
        return new Panel(name, setting, "synthetic:40/{x}", 12, 200, systems, List.of());
    }

    private static List<ComparedSystem> systems(double x) {
        return List.of(
                new ComparedSystem("vllm", "gpu-only", 1, List.of(x)), new ComparedSystem("neo", "neo", 1, List.of(x)));
    }

    private static Claim claim(String panel, double printed) {
        Quantity gain = new Quantity.MaxGain(new CurveName(panel, "neo"), new CurveName(panel, "vllm"), ALL);
        return new Claim("NEO of " + panel + " is faster", "5", printed, gain, ABOVE_0, ABOVE_0, List.of());
    }

    private static Execution execution(LocalMachine machine, Selection selection, Figure figure, Fidelity... all) {
        return Execution.of(List.of(figure), List.of(all), selection, machine, WaitingClock.system());
    }

    private static List<Reproduction> run(Execution execution, List<String> cells) throws InterruptedException {
        return execution.run(cells::add, (what, done, total) -> {}, reproduction -> {});
    }

    @Test
    void aFigureRunsToItsEndAndHasNumbersWithoutVerdicts(@TempDir Path folder) throws Exception {
        Figure figure = figure(
                Experiment.THROUGHPUT,
                List.of(panel("small", TINY, systems(20))),
                List.of(claim("small", 7.5), claim("small", Double.NaN)));
        List<String> cells = new ArrayList<>();
        try (LocalMachine machine = LocalMachine.of(LocalMachine.Device.CPU)) {
            List<Reproduction> done =
                    run(execution(machine, Selection.WHOLE, figure, Fidelity.ARTIFACT, Fidelity.TANDEM), cells);
            new ReproductionReport(
                            done, new Circumstances("abc", machine.describe(), "./tandem", "now", 1, 1), List.of())
                    .write(folder);
            String page = Files.readString(folder.resolve("index.html"));
            assertThat(page)
                    .contains("executed by Tandem on CPU executor")
                    .contains(", with 24 KV blocks (96 KiB); not t4-g4dn.4xlarge, the machine of the paper")
                    .contains("./tandem reproduce neo tiny --fidelity artifact,tandem --on cpu")
                    .contains("<th class=\"number\">measured here</th>")
                    .doesNotContain("direction only");
        }
        assertThat(cells).hasSize(4).first().asString().startsWith("neo tiny, small/vllm, ");
        List<JsonNode> points = Files.readAllLines(folder.resolve("points.jsonl")).stream()
                .map(line -> new ObjectMapper().readTree(line))
                .toList();
        assertThat(points).hasSize(4).allSatisfy(point -> {
            assertThat(point.get("value").asDouble()).isPositive();
            assertThat(point.get("completed").asInt()).isEqualTo(12);
            assertThat(point.get("total_output_tokens").asInt()).isBetween(12 * 18, 12 * 22);
            assertThat(point.get("machine").asString()).startsWith("executed: small: CPU executor, ");
            assertThat(point.get("gpu_kv_bytes").asLong()).isEqualTo(24L * 16 * 2 * 2 * 32 * 2);
        });
        assertThat(points)
                .extracting(point -> point.get("strategy").asString())
                .containsExactly("gpu-only", "gpu-only", "adaptive-pipelining", "neo");
        List<JsonNode> verdicts = Files.readAllLines(folder.resolve("verdicts.jsonl")).stream()
                .map(line -> new ObjectMapper().readTree(line))
                .toList();
        assertThat(verdicts)
                .hasSize(4)
                .allSatisfy(
                        verdict -> assertThat(verdict.get("verdict").asString()).isEqualTo("measured here"));
        assertThat(verdicts.get(0).get("because").asString())
                .startsWith("measured here: ours is ")
                .endsWith(", the paper prints 7.5; asked for is at least 0");
        assertThat(verdicts.get(1).get("because").asString()).endsWith("; on this machine that holds");
    }

    @Test
    void arrivalsOfAnOpenLoopAreExecuted() throws Exception {
        Figure figure = figure(
                Experiment.LOAD_LATENCY,
                List.of(new Panel("small", TINY, "synthetic:40/20", 40, 0, systems(400), List.of())),
                List.of(claim("small", 2)));
        try (LocalMachine machine = LocalMachine.of(LocalMachine.Device.CPU)) {
            Reproduction done = run(execution(machine, Selection.WHOLE, figure, Fidelity.PRINTED), new ArrayList<>())
                    .getFirst();
            assertThat(done.points()).hasSize(2).allSatisfy(point -> {
                assertThat(point.value()).isPositive();
                assertThat(point.details()).containsEntry("failed", 0).containsEntry("unfinished", 0);
                assertThat((double) point.details().get("offered_request_rate")).isBetween(200.0, 600.0);
            });
        }
    }

    @Test
    void curvesOfTheProfileAreMeasured() throws Exception {
        Setting profiled = new Setting("tiny", "t4-g4dn.4xlarge", 0, 0, 0, 0);
        List<ComparedSystem> gpu = List.of(new ComparedSystem("gpu", "gpu-only", 1, List.of(1.0, 64.0)));
        Figure figure = figure(
                Experiment.LINEAR_SECONDS, List.of(new Panel("small", profiled, "", 0, 0, gpu, List.of())), List.of());
        try (LocalMachine machine = LocalMachine.of(LocalMachine.Device.CPU)) {
            Reproduction done = run(execution(machine, Selection.WHOLE, figure, Fidelity.PRINTED), new ArrayList<>())
                    .getFirst();
            assertThat(done.points())
                    .hasSize(2)
                    .allSatisfy(point -> assertThat(point.value()).isPositive());
        }
    }

    @Test
    void whatThisMachineCannotRunIsNamedBeforeAnythingStarts() throws Exception {
        Setting two = new Setting("tiny", "2xh100-hgx", 24, 8L << 20, 256, 16);
        Setting hostKv = new Setting("tiny", "t4-g4dn.4xlarge", 24, 1L << 50, 256, 16);
        Setting gpuKv = new Setting("tiny", "t4-g4dn.4xlarge", Integer.MAX_VALUE / 16, 8L << 20, 256, 16);
        List<ComparedSystem> kernels = List.of(
                new ComparedSystem("vllm", "gpu-only", 1, List.of(20.0)),
                new ComparedSystem("slow", "neo", 0.5, List.of(20.0)));
        Figure figure = figure(
                Experiment.THROUGHPUT,
                List.of(
                        panel("two", two, systems(20)),
                        panel("hostKv", hostKv, systems(20)),
                        panel("gpuKv", gpuKv, systems(20)),
                        panel("kernels", TINY, kernels)),
                List.of(claim("two", 2), claim("hostKv", 2)));
        try (LocalMachine machine = LocalMachine.of(LocalMachine.Device.CPU)) {
            Execution execution = execution(machine, Selection.WHOLE, figure, Fidelity.PRINTED);
            assertThat(execution.leftOut()).hasSize(4);
            assertThat(execution.leftOut().get(0))
                    .isEqualTo("neo tiny, two: tiny is split over 2 GPUs, and Tandem uses one");
            assertThat(execution.leftOut().get(1))
                    .startsWith("neo tiny, hostKv: host KV of 1048576.0 GiB and the rest need");
            assertThat(execution.leftOut().get(2)).startsWith("neo tiny, gpuKv: weights and KV of tiny take ");
            assertThat(execution.leftOut().get(3))
                    .isEqualTo("neo tiny, kernels/slow: its CPU kernel has 0.5 of the speed, and only Tandem's is"
                            + " here");

            Selection one = new Selection(OptionalInt.empty(), List.of(), List.of(), List.of("two"));
            assertThatThrownBy(() -> execution(machine, one, figure, Fidelity.PRINTED))
                    .isInstanceOf(ConfigurationException.class)
                    .hasMessageStartingWith("--on cpu: nothing can run on this machine. neo tiny, two: ")
                    .hasMessageEndingWith(". Use --on simulate");
        }
    }

    @Test
    void wrongOptionsAreNamed() {
        assertThat(CommandRun.of("reproduce", "neo", "fig9", "--on", "tpu").errors())
                .contains("--on");
        assertThat(CommandRun.of("reproduce", "neo", "fig9", "--requests", "3").errors())
                .contains("--requests 3 is too small");
        assertThat(CommandRun.of("reproduce", "apex", "fig3", "--requests", "30")
                        .errors())
                .contains("--requests 30: apex fig3 runs no requests");
        assertThat(CommandRun.of("reproduce", "neo", "fig9", "--panel", "v100").errors())
                .contains("--panel v100: neo fig9 has no such panel; use h100, a10g, t4");
        assertThat(CommandRun.of("reproduce", "neo", "fig9", "--x", "100,50").errors())
                .contains("--x 100,50 must be numbers above 0 in rising order");
        assertThat(CommandRun.of("reproduce", "neo", "fig9", "--x", "50.5").errors())
                .contains("--x 50.5: mean output tokens must be integers");
        assertThat(CommandRun.of("reproduce", "neo", "fig10b", "--x", "50").errors())
                .contains("--x 50: panel a10g of neo fig10b has one horizontal value");
        assertThat(CommandRun.of("reproduce", "neo", "fig7", "--x", "101").errors())
                .contains("--x 101: a percentile is at most 100");
        assertThat(CommandRun.of("reproduce", "all", "--x", "50").errors())
                .contains("--panel and --x are of one figure");
    }

    @Test
    void aPartIsSimulatedWithoutVerdicts(@TempDir Path folder) throws Exception {
        CommandRun run = CommandRun.of(
                "reproduce",
                "neo",
                "fig9",
                "--panel",
                "t4",
                "--requests",
                "20",
                "--x",
                "50",
                "--seeds",
                "1",
                "--fidelity",
                "artifact",
                "--output",
                folder.toString());
        assertThat(run.status()).isZero();
        assertThat(run.out()).contains("up to 7.5 times the throughput on T4: part simulated: ours is ");
        assertThat(Files.readString(folder.resolve("index.html")))
                .contains("Only a part of each figure ran")
                .contains("./tandem reproduce neo fig9 --fidelity artifact --panel 't4' --requests 20 --x 50"
                        + " --seeds 1");
    }

    @Test
    void aFigureOfTwoGpusIsRefused() {
        CommandRun refused = CommandRun.of("reproduce", "neo", "fig6a", "--on", "cpu");
        assertThat(refused.status()).isNotZero();
        assertThat(refused.errors())
                .contains("neo fig6a, h100: Llama-3.1-70B is split over 2 GPUs, and Tandem uses one");
    }
}
