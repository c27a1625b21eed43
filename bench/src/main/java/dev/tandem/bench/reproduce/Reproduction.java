package dev.tandem.bench.reproduce;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.strategy.Fidelity;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * The points of a figure and a verdict on each of its claims.
 *
 * @param figure the figure
 * @param points of all fidelities and seeds
 * @param verdicts of each claim, per fidelity
 * @param origin what computed the points
 */
public record Reproduction(Figure figure, List<Point> points, List<Verdict> verdicts, Origin origin) {
    /**
     * Simulates figures, with a number of cells at a time. Equal figures give equal points.
     *
     * @param selection the part of each figure that is simulated
     * @param threads cells that run at a time
     * @param progress receives each figure that is done, on the calling thread
     * @throws InterruptedException if the calling thread is interrupted; cells that run then end first
     */
    public static List<Reproduction> simulate(
            List<Figure> figures,
            List<Fidelity> fidelities,
            Selection selection,
            int threads,
            Consumer<Reproduction> progress)
            throws InterruptedException {
        List<Figure> selected = figures.stream().map(selection::of).toList();
        try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
            List<List<Future<List<Point>>>> running = selected.stream()
                    .map(figure -> cells(figure, fidelities)
                            .map(cell -> pool.submit(() -> new CellRun(cell, new SimulatedCell(cell)).points()))
                            .toList())
                    .toList();
            List<Reproduction> reproductions = new ArrayList<>();
            try {
                for (int i = 0; i < selected.size(); i++) {
                    List<Point> points = new ArrayList<>();
                    for (Future<List<Point>> cell : running.get(i)) {
                        points.addAll(cell.get());
                    }
                    Reproduction done = of(selected.get(i), fidelities, points, new Origin.Simulated(selection));
                    reproductions.add(done);
                    progress.accept(done);
                }
            } catch (ExecutionException e) {
                if (e.getCause() instanceof ConfigurationException wrong) {
                    throw wrong;
                }
                throw new IllegalStateException("a simulated cell has failed", e.getCause());
            } finally {
                pool.shutdownNow();
            }
            return reproductions;
        }
    }

    /** The cells of a figure. Percentiles are all of one run. */
    static Stream<Cell> cells(Figure figure, List<Fidelity> fidelities) {
        return fidelities.stream()
                .flatMap(fidelity -> figure.panels().stream()
                        .flatMap(panel -> panel.systems().stream()
                                .flatMap(system -> figure.seeds().stream()
                                        .flatMap(seed -> system.x().stream()
                                                .limit(
                                                        figure.experiment() == Experiment.LATENCY_PERCENTILES
                                                                ? 1
                                                                : Long.MAX_VALUE)
                                                .map(x -> new Cell(
                                                        figure, panel.name(), system.name(), fidelity, x, seed))))));
    }

    static Reproduction of(Figure figure, List<Fidelity> fidelities, List<Point> points, Origin origin) {
        List<Verdict> verdicts = new ArrayList<>();
        for (Fidelity fidelity : fidelities) {
            List<Curves> seeds = figure.seeds().stream()
                    .map(seed -> Curves.of(
                            figure.experiment(),
                            points.stream()
                                    .filter(point -> point.cell().fidelity() == fidelity
                                            && point.cell().seed() == seed)
                                    .toList()))
                    .toList();
            figure.claims().forEach(claim -> verdicts.add(Verdict.of(claim, fidelity, seeds, origin)));
        }
        return new Reproduction(figure, List.copyOf(points), List.copyOf(verdicts), origin);
    }

    /** The fidelities that were run, in their order. */
    List<Fidelity> fidelities() {
        return points.stream().map(point -> point.cell().fidelity()).distinct().toList();
    }

    /** The points of a curve, of all seeds. */
    List<Point> points(String panel, String system, Fidelity fidelity) {
        return points.stream()
                .filter(point -> point.cell().panel().equals(panel)
                        && point.cell().system().equals(system)
                        && point.cell().fidelity() == fidelity)
                .toList();
    }
}
