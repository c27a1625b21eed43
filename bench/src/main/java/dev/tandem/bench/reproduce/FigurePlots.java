package dev.tandem.bench.reproduce;

import dev.tandem.bench.report.Axis;
import dev.tandem.bench.report.Mark;
import dev.tandem.bench.report.Plot;
import dev.tandem.bench.report.Series;
import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.engine.strategy.Fidelity;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * Draws the panels of a reproduction: per system and fidelity a curve through the means of the seeds with their range
 * as a band, and the printed numbers as marks, or as lines where the text names one coordinate only.
 *
 * @param reproduction the figure's points
 */
record FigurePlots(Reproduction reproduction) {
    /** Latencies far above saturation would hide all others; NEO's diagrams end at 2 s, too. */
    private static final double MAX_LATENCY = 3;

    /** One panel. */
    Plot plot(Panel panel) {
        Experiment experiment = reproduction.figure().experiment();
        List<Series> curves = new ArrayList<>();
        for (Fidelity fidelity : reproduction.fidelities()) {
            panel.systems().forEach(system -> curves.add(curve(panel, system, fidelity)));
        }
        double lastX =
                last(curves.stream().flatMap(curve -> curve.points().stream().map(Series.Point::x)));
        double lastY =
                last(curves.stream().flatMap(curve -> curve.points().stream().map(Series.Point::y)));
        Axis vertical = Axis.linear(experiment.vertical());
        boolean latency = experiment == Experiment.LOAD_LATENCY;
        panel.marks().stream()
                .filter(mark -> Double.isNaN(mark.x()) || Double.isNaN(mark.y()))
                .forEach(mark -> curves.add(line(mark, lastX, latency ? Math.min(MAX_LATENCY, lastY) : lastY)));
        return new Plot(
                title(panel),
                Axis.linear(experiment.horizontal()),
                latency ? vertical.upTo(MAX_LATENCY) : vertical,
                curves,
                panel.marks().stream()
                        .filter(mark -> !Double.isNaN(mark.x()) && !Double.isNaN(mark.y()))
                        .map(mark -> new Mark(mark.label(), mark.x(), mark.y()))
                        .toList());
    }

    /** Names the machine of the points. */
    private String title(Panel panel) {
        String figure = reproduction.figure().id() + ": ";
        return switch (reproduction.origin()) {
            case Origin.Simulated _ ->
                figure + panel.setting().hardware() + ", " + panel.setting().model();
            case Origin.Executed executed ->
                figure + "limits of " + panel.name() + " on " + executed.machine() + ", "
                        + panel.setting().model();
        };
    }

    private static double last(Stream<Double> values) {
        return values.reduce(0.0, Math::max);
    }

    private static Series line(Panel.Mark mark, double lastX, double lastY) {
        return Series.of(
                mark.label(),
                Double.isNaN(mark.x())
                        ? List.of(new Series.Point(0, mark.y()), new Series.Point(lastX, mark.y()))
                        : List.of(new Series.Point(mark.x(), 0), new Series.Point(mark.x(), lastY)));
    }

    private Series curve(Panel panel, ComparedSystem system, Fidelity fidelity) {
        Map<Double, List<Double>> values = new TreeMap<>();
        for (Point point : reproduction.points(panel.name(), system.name(), fidelity)) {
            double base = reproduction.figure().experiment().isRelative() ? base(point) : 1;
            values.computeIfAbsent(point.x(), _ -> new ArrayList<>()).add(point.value() / base);
        }
        List<Series.Point> means = new ArrayList<>();
        List<Series.Band> band = new ArrayList<>();
        values.forEach((x, seeds) -> {
            means.add(new Series.Point(
                    x, seeds.stream().mapToDouble(v -> v).average().orElseThrow()));
            band.add(new Series.Band(
                    x,
                    seeds.stream().mapToDouble(v -> v).min().orElseThrow(),
                    seeds.stream().mapToDouble(v -> v).max().orElseThrow()));
        });
        String name = PanelEngine.name(system, fidelity)
                + (reproduction.fidelities().size() > 1 ? ", " + fidelity.flag() : "");
        return new Series(name, means, band);
    }

    /** The value of the panel's first system at the place of a point. */
    private double base(Point of) {
        Panel panel = reproduction.figure().panel(of.cell().panel());
        return reproduction
                .points(
                        panel.name(),
                        panel.systems().getFirst().name(),
                        of.cell().fidelity())
                .stream()
                .filter(point ->
                        point.x() == of.x() && point.cell().seed() == of.cell().seed())
                .mapToDouble(Point::value)
                .findFirst()
                .orElseThrow();
    }
}
