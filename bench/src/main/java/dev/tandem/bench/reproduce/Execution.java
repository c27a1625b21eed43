package dev.tandem.bench.reproduce;

import dev.tandem.bench.Recorder;
import dev.tandem.bench.ThroughputRun;
import dev.tandem.bench.WaitingClock;
import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.strategy.Fidelity;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * Executes figures on the machine at hand: one cell after another, with one model in memory at a time. What the machine
 * cannot run is known before anything starts.
 *
 * <p>Owned by: the thread that runs it.
 */
public final class Execution {
    private final List<Figure> figures;
    private final List<String> leftOut;
    private final List<Fidelity> fidelities;
    private final Selection selection;
    private final FigureMachine machine;
    private final WaitingClock clock;

    private Execution(
            List<Figure> figures,
            List<String> leftOut,
            List<Fidelity> fidelities,
            Selection selection,
            FigureMachine machine,
            WaitingClock clock) {
        this.figures = figures;
        this.leftOut = leftOut;
        this.fidelities = fidelities;
        this.selection = selection;
        this.machine = machine;
        this.clock = clock;
    }

    /**
     * Checks what of the figures the machine can run.
     *
     * @throws ConfigurationException with the reasons, when it is nothing
     */
    public static Execution of(
            List<Figure> figures,
            List<Fidelity> fidelities,
            Selection selection,
            FigureMachine machine,
            WaitingClock clock) {
        List<Figure> possible = new ArrayList<>();
        List<String> leftOut = new ArrayList<>();
        for (Figure figure : figures) {
            Figure selected = selection.of(figure);
            List<Panel> panels = new ArrayList<>();
            for (Panel panel : selected.panels()) {
                Optional<String> reason = obstacle(panel, fidelities, machine);
                if (reason.isPresent()) {
                    leftOut.add(figure.id() + ", " + panel.name() + ": " + reason.get());
                    continue;
                }
                List<ComparedSystem> systems = new ArrayList<>();
                for (ComparedSystem system : panel.systems()) {
                    if (system.hostAttention() == 1) {
                        systems.add(system);
                    } else {
                        leftOut.add(figure.id() + ", " + panel.name() + "/" + system.name() + ": its CPU kernel has "
                                + Numbers.text(system.hostAttention()) + " of the speed, and only Tandem's is here");
                    }
                }
                if (!systems.isEmpty()) {
                    panels.add(panel.withSystems(systems));
                }
            }
            if (!panels.isEmpty()) {
                possible.add(selected.withPanels(panels));
            }
        }
        if (possible.isEmpty()) {
            throw new ConfigurationException("--on " + machine.flag() + ": nothing can run on this machine. "
                    + String.join("; ", leftOut) + ". Use --on simulate");
        }
        return new Execution(possible, leftOut, fidelities, selection, machine, clock);
    }

    private static Optional<String> obstacle(Panel panel, List<Fidelity> fidelities, FigureMachine machine) {
        int gpus = Hardware.named(panel.setting().hardware()).tensorParallel().degree();
        if (gpus > 1) {
            return Optional.of(panel.setting().model() + " is split over " + gpus + " GPUs, and Tandem uses one");
        }
        return fidelities.stream()
                .flatMap(fidelity -> panel.systems().stream().map(system -> EngineSetting.of(panel, system, fidelity)))
                .distinct()
                .flatMap(setting -> machine.obstacle(setting).stream())
                .findFirst();
    }

    /** A line with the reason for each panel and system that this machine cannot run. */
    public List<String> leftOut() {
        return leftOut;
    }

    /**
     * Runs all cells. Those of one engine follow each other, so that the model is loaded once for them.
     *
     * @param cells receives a line per cell that is done
     * @param progress of the requests of a cell; called on any thread
     * @param done receives each figure that is done
     * @throws dev.tandem.engine.executor.ExecutorException when a request fails
     */
    public List<Reproduction> run(Consumer<String> cells, ThroughputRun.Progress progress, Consumer<Reproduction> done)
            throws InterruptedException {
        List<Reproduction> reproductions = new ArrayList<>();
        Origin origin = new Origin.Executed(selection, machine.flag(), machine.describe());
        for (Figure figure : figures) {
            List<Point> points = new ArrayList<>();
            for (Panel panel : figure.panels()) {
                try (ExecutedCells engines = new ExecutedCells(machine, panel, new Recorder(), clock, progress)) {
                    for (Cell cell : ordered(figure, panel)) {
                        long start = clock.nanos();
                        List<Point> made = new CellRun(cell, engines.of(cell)).points();
                        points.addAll(made);
                        cells.accept(line(cell, made, (clock.nanos() - start) / 1e9));
                    }
                }
            }
            Reproduction reproduction = Reproduction.of(figure, fidelities, points, origin);
            reproductions.add(reproduction);
            done.accept(reproduction);
        }
        return reproductions;
    }

    /** The cells of a panel, those with equal engines together. */
    private List<Cell> ordered(Figure figure, Panel panel) {
        List<Cell> cells = Reproduction.cells(figure, fidelities)
                .filter(cell -> cell.panel().equals(panel.name()))
                .toList();
        List<EngineSetting> engines = cells.stream()
                .map(cell -> setting(panel, cell))
                .distinct()
                .sorted(Comparator.comparing((EngineSetting setting) ->
                                setting.strategy().offloads()) // the baseline first: it needs no profile
                        .thenComparing(setting -> setting.strategy().flag()))
                .toList();
        return cells.stream()
                .sorted(Comparator.comparingInt((Cell cell) -> engines.indexOf(setting(panel, cell))))
                .toList();
    }

    private static EngineSetting setting(Panel panel, Cell cell) {
        return EngineSetting.of(panel, panel.system(cell.system()), cell.fidelity());
    }

    private static String line(Cell cell, List<Point> points, double seconds) {
        StringBuilder line = new StringBuilder(cell.toString()).append(':');
        points.forEach(point -> line.append(' ').append(Numbers.text(point.value())));
        return line.append(" (")
                .append(unit(cell.figure().experiment()))
                .append(String.format(Locale.ROOT, "; took %.1f s)", seconds))
                .toString();
    }

    private static String unit(Experiment experiment) {
        return switch (experiment) {
            case THROUGHPUT -> "requests/s";
            case TOTAL_TOKENS -> "tokens/s";
            case LOAD_LATENCY, LATENCY_PERCENTILES, LINEAR_SECONDS, ATTENTION_SECONDS, SPEEDUP_FORMULA ->
                experiment.vertical();
        };
    }
}
