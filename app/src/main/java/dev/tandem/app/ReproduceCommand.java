package dev.tandem.app;

import dev.tandem.bench.WaitingClock;
import dev.tandem.bench.reproduce.Circumstances;
import dev.tandem.bench.reproduce.Execution;
import dev.tandem.bench.reproduce.Figure;
import dev.tandem.bench.reproduce.Reproduction;
import dev.tandem.bench.reproduce.ReproductionReport;
import dev.tandem.bench.reproduce.Selection;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.strategy.Fidelity;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Runs {@code reproduce}: the figures of NEO and APEX, with a verdict on each claim. */
@Command(
        name = "reproduce",
        mixinStandardHelpOptions = true,
        description = "Simulates figures of the NEO and APEX papers on the machines that they name, and holds each"
                + " claim of the text against the result. With --on gpu it executes them on the GPU at hand, which"
                + " gives numbers without verdicts.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem reproduce list",
            "  tandem reproduce neo fig6c",
            "  tandem reproduce all --fidelity printed,artifact,tandem --output figures",
            "  tandem reproduce neo fig9 --on gpu --panel t4 --fidelity artifact --requests 60 --x 50"
        })
@Section(Section.Heading.COMMAND)
final class ReproduceCommand implements Callable<Integer> {
    @Parameters(
            arity = "1..2",
            paramLabel = "FIGURE",
            description = "list, all, or a paper and a figure, as neo fig6c. Required.")
    List<String> names = List.of();

    /** What runs the figures. */
    enum Runner {
        SIMULATE,
        GPU,
        CPU
    }

    @Option(
            names = "--on",
            paramLabel = "RUNNER",
            defaultValue = "simulate",
            description = "simulate, on the paper's machine; gpu, on the first GPU here with random weights and the"
                    + " figure's limits; or cpu, the same on the CPU executor. Only simulate has verdicts."
                    + " Default: ${DEFAULT-VALUE}.")
    Runner runner = Runner.SIMULATE;

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

    @Mixin
    SelectionOptions part = new SelectionOptions();

    @Spec
    CommandSpec spec;

    private final WaitingClock clock = WaitingClock.system();

    @Override
    public Integer call() throws InterruptedException, IOException {
        if (names.equals(List.of("list"))) {
            Figure.ALL.forEach(id -> System.out.println(
                    id + ": " + Figure.of(id.paper(), id.figure()).title()));
            return 0;
        }
        List<Figure> figures = figures();
        List<Fidelity> chosen = fidelities.stream().map(Fidelity::of).distinct().toList();
        Selection selection = selection(figures);
        OutputFile.check("--output", output.resolve("index.html"));
        switch (runner) {
            case SIMULATE -> {
                long start = clock.nanos();
                List<Reproduction> reproductions = Reproduction.simulate(
                        figures,
                        chosen,
                        selection,
                        Runtime.getRuntime().availableProcessors(),
                        ReproduceCommand::print);
                write(reproductions, MachineProbe.machine(), start, List.of());
            }
            case GPU -> execute(LocalMachine.Device.GPU, figures, chosen, selection);
            case CPU -> execute(LocalMachine.Device.CPU, figures, chosen, selection);
        }
        return 0;
    }

    private void execute(LocalMachine.Device device, List<Figure> figures, List<Fidelity> chosen, Selection selection)
            throws InterruptedException, IOException {
        long start = clock.nanos();
        try (LocalMachine machine = LocalMachine.of(device)) {
            Execution execution = Execution.of(figures, chosen, selection, machine, clock);
            execution.leftOut().forEach(line -> System.out.println("left out: " + line));
            List<Reproduction> reproductions =
                    execution.run(System.out::println, Terminal.standardError()::count, ReproduceCommand::print);
            write(reproductions, machine.describe(), start, execution.leftOut());
        }
    }

    private static void print(Reproduction reproduction) {
        reproduction
                .verdicts()
                .forEach(verdict -> System.out.println(reproduction.figure().id() + ", "
                        + verdict.fidelity().flag() + ": " + verdict.claim().words() + ": " + verdict.because()));
    }

    private void write(List<Reproduction> reproductions, String machine, long start, List<String> leftOut) {
        Circumstances circumstances = new Circumstances(
                BenchReport.commit(),
                machine,
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
        new ReproductionReport(reproductions, circumstances, leftOut).write(output);
        System.out.println("Written: " + output.resolve("index.html"));
    }

    /** @throws ConfigurationException when an option does nothing, or is of one figure and given with all */
    private Selection selection(List<Figure> figures) {
        if (part.requests.isPresent()
                && figures.stream().noneMatch(figure -> figure.experiment().runsRequests())) {
            throw new ConfigurationException("--requests " + part.requests.get() + ": "
                    + figures.getFirst().id() + " runs no requests; leave it out");
        }
        if (names.equals(List.of("all")) && !(part.panels.isEmpty() && part.x.isEmpty())) {
            throw new ConfigurationException(
                    "--panel and --x are of one figure; name it in place of all, or leave them out");
        }
        return part.selection();
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
