package dev.tandem.bench.reproduce;

import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.bench.reproduce.Panel.Mark;
import dev.tandem.engine.strategy.Fidelity;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;

/**
 * Draws a panel as SVG: one curve per system and fidelity with the range of its seeds, and the printed numbers as
 * dashed lines or crosses.
 */
final class Diagram {
    private static final int WIDTH = 640;
    private static final int HEIGHT = 400;
    private static final int LEFT = 70;
    private static final int RIGHT = 20;
    private static final int TOP = 40;
    private static final int BOTTOM = 50;
    /** Latencies far above saturation would hide all others; NEO's diagrams end at 2 s, too. */
    private static final double MAX_LATENCY = 3;

    private static final List<String> COLOURS = List.of("#4477aa", "#ee6677", "#228833", "#aa3377");
    private static final Map<Fidelity, String> DASHES =
            Map.of(Fidelity.PRINTED, "none", Fidelity.ARTIFACT, "8 4", Fidelity.TANDEM, "2 3");
    private static final String STYLE = """
            <style>
            text { font: 12px sans-serif; fill: #222; }
            .axis { stroke: #666; fill: none; }
            .grid { stroke: #bbb; stroke-opacity: 0.5; }
            .mark { stroke: #777; stroke-dasharray: 4 4; fill: none; }
            @media (prefers-color-scheme: dark) { text { fill: #ddd; } .axis { stroke: #aaa; } }
            </style>
            """;

    /** Range of the seeds at one horizontal value. */
    private record Spread(double low, double mean, double high) {
        static Spread of(List<Double> values) {
            return new Spread(
                    values.stream().mapToDouble(v -> v).min().orElseThrow(),
                    values.stream().mapToDouble(v -> v).average().orElseThrow(),
                    values.stream().mapToDouble(v -> v).max().orElseThrow());
        }
    }

    private record Line(String name, String colour, String dash, TreeMap<Double, Spread> points) {}

    private final Reproduction reproduction;
    private final Panel panel;
    private final List<Line> lines = new ArrayList<>();
    private final double maxX;
    private final double maxY;

    private Diagram(Reproduction reproduction, Panel panel) {
        this.reproduction = reproduction;
        this.panel = panel;
        List<Fidelity> fidelities = reproduction.fidelities();
        for (Fidelity fidelity : fidelities) {
            for (int i = 0; i < panel.systems().size(); i++) {
                ComparedSystem system = panel.systems().get(i);
                String name = system.name() + (fidelities.size() > 1 ? ", " + fidelity.flag() : "");
                String colour = COLOURS.get(i % COLOURS.size());
                lines.add(new Line(name, colour, DASHES.getOrDefault(fidelity, "none"), points(system, fidelity)));
            }
        }
        maxX = max(point -> point.getKey(), panel.marks().stream().map(Mark::x).toList());
        double top = 1.08 * max(point -> point.getValue().high(), panel.marks().stream().map(Mark::y).toList());
        maxY = reproduction.figure().experiment() == Experiment.LOAD_LATENCY ? Math.min(MAX_LATENCY, top) : top;
    }

    /** The panel as an SVG document. */
    static String svg(Reproduction reproduction, Panel panel) {
        return new Diagram(reproduction, panel).draw();
    }

    private TreeMap<Double, Spread> points(ComparedSystem system, Fidelity fidelity) {
        Map<Double, List<Double>> values = new LinkedHashMap<>();
        for (Point point : reproduction.points(panel.name(), system.name(), fidelity)) {
            double base = reproduction.figure().experiment().isRelative() ? base(point) : 1;
            values.computeIfAbsent(point.x(), _ -> new ArrayList<>()).add(point.value() / base);
        }
        TreeMap<Double, Spread> points = new TreeMap<>();
        values.forEach((x, seeds) -> points.put(x, Spread.of(seeds)));
        return points;
    }

    /** The value of the panel's first system at the point's place. */
    private double base(Point of) {
        return reproduction
                .points(panel.name(), panel.systems().getFirst().name(), of.cell().fidelity())
                .stream()
                .filter(point -> point.x() == of.x() && point.cell().seed() == of.cell().seed())
                .mapToDouble(Point::value)
                .findFirst()
                .orElseThrow();
    }

    private double max(ToDoubleFunction<Map.Entry<Double, Spread>> value, List<Double> marks) {
        double curves = lines.stream()
                .flatMap(line -> line.points().entrySet().stream())
                .mapToDouble(value)
                .max()
                .orElse(1);
        return marks.stream().filter(mark -> !Double.isNaN(mark)).reduce(curves, Math::max);
    }

    private double x(double value) {
        return LEFT + value / maxX * (WIDTH - LEFT - RIGHT);
    }

    private double y(double value) {
        return HEIGHT - BOTTOM - value / maxY * (HEIGHT - TOP - BOTTOM);
    }

    private String draw() {
        StringBuilder svg = new StringBuilder("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">%n"
                .formatted(WIDTH, HEIGHT));
        svg.append(STYLE);
        Experiment experiment = reproduction.figure().experiment();
        add(svg, "<text x=\"%d\" y=\"16\" font-weight=\"bold\">%s</text>", LEFT, Html.escaped(title()));
        add(svg, "<clipPath id=\"area\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>",
                LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        axes(svg, experiment);
        svg.append("<g clip-path=\"url(#area)\">\n");
        panel.marks().forEach(mark -> mark(svg, mark));
        lines.forEach(line -> line(svg, line));
        svg.append("</g>\n");
        legend(svg);
        return svg.append("</svg>\n").toString();
    }

    private String title() {
        return reproduction.figure().id() + ": " + panel.setting().hardware() + ", "
                + panel.setting().model() + (panel.workload().isEmpty() ? "" : ", " + panel.workload());
    }

    private void axes(StringBuilder svg, Experiment experiment) {
        for (int i = 0; i <= 5; i++) {
            double vertical = maxY * i / 5;
            double horizontal = maxX * i / 5;
            add(svg, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                    LEFT, WIDTH - RIGHT, y(vertical), y(vertical));
            add(svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                    LEFT - 6, y(vertical) + 4, Numbers.text(vertical));
            add(svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>",
                    x(horizontal), HEIGHT - BOTTOM + 16, Numbers.text(horizontal));
        }
        add(svg, "<path class=\"axis\" d=\"M%d %d V%d H%d\"/>", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
        add(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>",
                (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, experiment.horizontal());
        add(svg, "<text x=\"14\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 14 %d)\">%s</text>",
                (TOP + HEIGHT - BOTTOM) / 2, (TOP + HEIGHT - BOTTOM) / 2, experiment.vertical());
    }

    private void mark(StringBuilder svg, Mark mark) {
        String label = Html.escaped(mark.label());
        if (Double.isNaN(mark.x())) {
            add(svg, "<line class=\"mark\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                    LEFT, WIDTH - RIGHT, y(mark.y()), y(mark.y()));
            add(svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>", WIDTH - RIGHT - 4, y(mark.y()) - 4, label);
        } else if (Double.isNaN(mark.y())) {
            add(svg, "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>",
                    x(mark.x()), x(mark.x()), TOP, HEIGHT - BOTTOM);
            add(svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"end\" transform=\"rotate(-90 %.1f %d)\">%s</text>",
                    x(mark.x()) - 4, TOP + 4, x(mark.x()) - 4, TOP + 4, label);
        } else {
            add(svg, "<path class=\"mark\" d=\"M%.1f %.1f l10 10 m0 -10 l-10 10\"/>", x(mark.x()) - 5, y(mark.y()) - 5);
            add(svg, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", x(mark.x()) + 8, y(mark.y()) - 6, label);
        }
    }

    private void line(StringBuilder svg, Line line) {
        String upper = path(line, Spread::high);
        List<String> lower = line.points().descendingMap().entrySet().stream()
                .map(point -> "L" + at(point.getKey(), point.getValue().low()))
                .toList();
        add(svg, "<path d=\"%s %s Z\" fill=\"%s\" fill-opacity=\"0.2\"/>", upper, String.join(" ", lower), line.colour());
        add(svg, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>",
                path(line, Spread::mean), line.colour(), line.dash());
        line.points().forEach((x, spread) ->
                add(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>", x(x), y(spread.mean()), line.colour()));
    }

    private String path(Line line, ToDoubleFunction<Spread> value) {
        return "M" + line.points().entrySet().stream()
                .map(point -> at(point.getKey(), value.applyAsDouble(point.getValue())))
                .collect(Collectors.joining(" L"));
    }

    private String at(double x, double y) {
        return String.format(Locale.ROOT, "%.1f %.1f", x(x), y(y));
    }

    private void legend(StringBuilder svg) {
        int left = LEFT;
        for (Line line : lines) {
            add(svg, "<line x1=\"%d\" x2=\"%d\" y1=\"28\" y2=\"28\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>",
                    left, left + 24, line.colour(), line.dash());
            add(svg, "<text x=\"%d\" y=\"32\">%s</text>", left + 28, Html.escaped(line.name()));
            left += 48 + 7 * line.name().length();
        }
    }

    private static void add(StringBuilder svg, String format, Object... values) {
        svg.append(String.format(Locale.ROOT, format, values)).append('\n');
    }
}
