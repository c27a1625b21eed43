package dev.tandem.app;

import dev.tandem.bench.reproduce.Circumstances;
import dev.tandem.bench.reproduce.Figure;
import dev.tandem.bench.reproduce.Reproduction;
import dev.tandem.bench.reproduce.ReproductionReport;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.strategy.Fidelity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Runs {@code reproduce}: the figures of NEO and APEX, with a verdict on each claim. */
@Command(
        name = "reproduce",
        mixinStandardHelpOptions = true,
        description = "Simulates figures of the NEO and APEX papers on the machines that they name, and holds each"
                + " claim of the text against the result.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem reproduce list",
            "  tandem reproduce neo fig6c",
            "  tandem reproduce all --fidelity printed,artifact,tandem --output figures"
        })
@Section(Section.Heading.COMMAND)
final class ReproduceCommand implements Callable<Integer> {
    @Parameters(
            arity = "1..2",
            paramLabel = "FIGURE",
            description = "list, all, or a paper and a figure, as neo fig6c. Required.")
    List<String> names = List.of();

    @Option(
            names = "--fidelity",
            paramLabel = "NAME",
            split = ",",
            defaultValue = "printed,artifact",
            description = "How close the strategies stay to the papers: printed, artifact or tandem, or several with"
                    + " commas. Default: ${DEFAULT-VALUE}.")
    List<String> fidelities = List.of();

    @Option(
            names = {"-o", "--output"},
            paramLabel = "FOLDER",
            defaultValue = "reproduced",
            description = "Folder for index.html, the SVG files and the JSON lines. Default: ${DEFAULT-VALUE}.")
    Path output = Path.of("reproduced");

    @Spec
    CommandSpec spec;

    @Override
    public Integer call() throws InterruptedException {
        if (names.equals(List.of("list"))) {
            Figure.ALL.forEach(id -> System.out.println(
                    id + ": " + Figure.of(id.paper(), id.figure()).title()));
            return 0;
        }
        List<Figure> figures = figures();
        List<Fidelity> chosen = fidelities.stream().map(Fidelity::of).distinct().toList();
        Clock clock = Clock.system();
        long start = clock.nanos();
        List<Reproduction> reproductions = Reproduction.simulate(
                figures,
                chosen,
                Runtime.getRuntime().availableProcessors(),
                reproduction -> reproduction
                        .verdicts()
                        .forEach(verdict ->
                                System.out.println(reproduction.figure().id() + ", "
                                        + verdict.fidelity().flag() + ": "
                                        + verdict.claim().words() + ": "
                                        + verdict.because())));
        Circumstances circumstances = new Circumstances(
                BenchReport.commit(),
                MachineProbe.machine(),
                "./tandem "
                        + String.join(" ", spec.commandLine().getParseResult().originalArgs()),
                BenchReport.now(),
                (clock.nanos() - start) / 1e9,
                ProcessHandle.current()
                                .info()
                                .totalCpuDuration()
                                .map(Duration::toMillis)
                                .orElse(0L)
                        / 1e3);
        new ReproductionReport(reproductions, circumstances).write(output);
        System.out.println("Written: " + output.resolve("index.html"));
        return 0;
    }

    private List<Figure> figures() {
        if (names.equals(List.of("all"))) {
            return Figure.ALL.stream()
                    .map(id -> Figure.of(id.paper(), id.figure()))
                    .toList();
        }
        if (names.size() < 2) {
            throw new ConfigurationException(
                    "reproduce " + names.getFirst() + " names no figure; use list, all, or a paper and a figure");
        }
        return List.of(Figure.of(names.get(0), names.get(1)));
    }
}
