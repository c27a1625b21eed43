package dev.tandem.bench.report;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Curves over two axes as SVG, in light and dark colours. The same values give the same text.
 *
 * @param marks single values; those of one name share a symbol
 */
public record Plot(String title, Axis x, Axis y, List<Series> series, List<Mark> marks) {
    private static final int HEIGHT = 400;
    private static final int LEFT = 76;
    /** Where the axes end; the legend follows. */
    private static final int RIGHT = 570;

    private static final int TOP = 44;
    private static final int BOTTOM = 56;
    private static final int LEGEND_LINE = 20;
    private static final int LEGEND_TEXT = RIGHT + 46;
    /** Pixels for a letter of the legend, which is 11 pixels high and 5.5 wide on average in Chromium. */
    private static final int LETTER = 6;

    private static final int MIN_WIDTH = 760;
    private static final int COLOURS = 8;

    /** Curves differ in colour and in the pattern of their lines, so that no one needs to tell colours apart. */
    private static final String[] DASHES = {"", "7 3", "2 3", "9 3 2 3"};

    private static final String STYLE = """
            <style>
              .plot text { font: 13px system-ui, sans-serif; fill: #1f2933; }
              .plot .title { font-size: 15px; font-weight: 600; }
              .plot .small { font-size: 11px; fill: #52606d; }
              .plot .grid { stroke: #e4e7eb; fill: none; }
              .plot .axis { stroke: #9aa5b1; fill: none; }
              .plot .line { fill: none; stroke: var(--c); stroke-width: 2; }
              .plot .dot { fill: var(--c); }
              .plot .band { fill: var(--c); opacity: 0.18; }
              .plot .mark { fill: none; stroke: #1f2933; stroke-width: 2; }
              .plot .c0 { --c: #2f6f4f; } .plot .c1 { --c: #b35c1e; } .plot .c2 { --c: #3b5bab; }
              .plot .c3 { --c: #8e3b8e; } .plot .c4 { --c: #1b7f8c; } .plot .c5 { --c: #a33030; }
              .plot .c6 { --c: #6b6f1d; } .plot .c7 { --c: #616e7c; }
              @media (prefers-color-scheme: dark) {
                .plot text { fill: #e4e7eb; } .plot .small { fill: #9aa5b1; }
                .plot .grid { stroke: #323f4b; } .plot .mark { stroke: #e4e7eb; }
                .plot .c0 { --c: #63c796; } .plot .c1 { --c: #f0a062; } .plot .c2 { --c: #8aa8f5; }
                .plot .c3 { --c: #d68bd6; } .plot .c4 { --c: #5fcbd8; } .plot .c5 { --c: #ee8080; }
                .plot .c6 { --c: #c3c860; } .plot .c7 { --c: #9aa5b1; }
              }
            </style>
            """;

    public Plot {
        series = List.copyOf(series);
        marks = List.copyOf(marks);
    }

    /** A plot without marks. */
    public static Plot of(String title, Axis x, Axis y, List<Series> series) {
        return new Plot(title, x, y, series, List.of());
    }

    /** The plot as a document of its own, which may also stand inside an HTML page. */
    public String svg() {
        Axis.Range across = x.range(values(true));
        Axis.Range up = y.range(values(false));
        List<String> names = markNames();
        int width = width(names);
        StringBuilder out = new StringBuilder();
        out.append(String.format(
                Locale.ROOT,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 %d %d\" width=\"%d\""
                        + " role=\"img\" aria-label=\"%s\">\n",
                width,
                HEIGHT,
                width,
                escape(title)));
        out.append(STYLE);
        text(out, LEFT, 24, "title", "start", title);
        axes(out, across, up);
        for (int i = 0; i < series.size(); i++) {
            curve(out, series.get(i), i, across, up);
        }
        for (Mark mark : marks) {
            if (x.shows(mark.x()) && y.shows(mark.y())) {
                symbol(out, names.indexOf(mark.name()), across(across, mark.x()), up(up, mark.y()));
            }
        }
        legend(out, names);
        return out.append("</svg>\n").toString();
    }

    /** Wide enough for the longest name of the legend. */
    private int width(List<String> markNames) {
        int longest = Stream.concat(series.stream().map(Series::name), markNames.stream())
                .mapToInt(String::length)
                .max()
                .orElse(0);
        return Math.max(MIN_WIDTH, LEGEND_TEXT + LETTER * longest);
    }

    private List<Double> values(boolean horizontal) {
        Stream<Double> points =
                series.stream().flatMap(one -> one.points().stream()).map(point -> horizontal ? point.x() : point.y());
        Stream<Double> bands = series.stream()
                .flatMap(one -> one.band().stream())
                .flatMap(band -> horizontal ? Stream.of(band.x()) : Stream.of(band.low(), band.high()));
        Stream<Double> singles = marks.stream().map(mark -> horizontal ? mark.x() : mark.y());
        return Stream.of(points, bands, singles).flatMap(all -> all).toList();
    }

    private List<String> markNames() {
        Set<String> names = new LinkedHashSet<>();
        marks.forEach(mark -> names.add(mark.name()));
        return List.copyOf(names);
    }

    private static double across(Axis.Range range, double value) {
        return LEFT + range.position(value) * (RIGHT - LEFT);
    }

    private static double up(Axis.Range range, double value) {
        return HEIGHT - BOTTOM - range.position(value) * (HEIGHT - TOP - BOTTOM);
    }

    private void axes(StringBuilder out, Axis.Range across, Axis.Range up) {
        int bottom = HEIGHT - BOTTOM;
        for (double tick : up.ticks()) {
            double at = up(up, tick);
            path(out, "grid", "", List.of(new Series.Point(LEFT, at), new Series.Point(RIGHT, at)));
            text(out, LEFT - 8, at + 4, "small", "end", Axis.text(tick));
        }
        for (double tick : across.ticks()) {
            double at = across(across, tick);
            path(out, "grid", "", List.of(new Series.Point(at, TOP), new Series.Point(at, bottom)));
            text(out, at, bottom + 18, "small", "middle", Axis.text(tick));
        }
        path(out, "axis", "", List.of(new Series.Point(LEFT, bottom), new Series.Point(RIGHT, bottom)));
        path(out, "axis", "", List.of(new Series.Point(LEFT, TOP), new Series.Point(LEFT, bottom)));
        text(out, (LEFT + RIGHT) / 2.0, HEIGHT - 14, "small", "middle", x.label());
        out.append(String.format(
                Locale.ROOT,
                "<text transform=\"translate(16 %s) rotate(-90)\" class=\"small\" text-anchor=\"middle\">%s</text>\n",
                number((TOP + bottom) / 2.0),
                escape(y.label())));
    }

    private void curve(StringBuilder out, Series one, int index, Axis.Range across, Axis.Range up) {
        String colour = " c" + index % COLOURS;
        List<Series.Point> outline = new ArrayList<>();
        one.band().stream()
                .filter(band -> x.shows(band.x()) && y.shows(band.high()) && y.shows(band.low()))
                .forEach(band -> {
                    outline.add(outline.size() / 2, new Series.Point(across(across, band.x()), up(up, band.high())));
                    outline.add(outline.size() / 2 + 1, new Series.Point(across(across, band.x()), up(up, band.low())));
                });
        if (outline.size() > 2) {
            path(out, "band" + colour, "", outline);
        }
        List<Series.Point> points = one.points().stream()
                .filter(point -> x.shows(point.x()) && y.shows(point.y()))
                .map(point -> new Series.Point(across(across, point.x()), up(up, point.y())))
                .toList();
        path(out, "line" + colour, DASHES[index % DASHES.length], points);
        points.forEach(point -> dot(out, "dot" + colour, point.x(), point.y()));
    }

    private void legend(StringBuilder out, List<String> names) {
        int left = RIGHT + 16;
        double at = TOP + 8;
        for (int i = 0; i < series.size(); i++, at += LEGEND_LINE) {
            String colour = " c" + i % COLOURS;
            path(
                    out,
                    "line" + colour,
                    DASHES[i % DASHES.length],
                    List.of(new Series.Point(left, at), new Series.Point(left + 24, at)));
            text(out, LEGEND_TEXT, at + 4, "small", "start", series.get(i).name());
        }
        for (int i = 0; i < names.size(); i++, at += LEGEND_LINE) {
            symbol(out, i, left + 12, at);
            text(out, LEGEND_TEXT, at + 4, "small", "start", names.get(i));
        }
    }

    /** A cross, a plus, a square or a diamond, by the number of the mark's name. */
    private static void symbol(StringBuilder out, int index, double x, double y) {
        String shape = switch (index % 4) {
            case 0 -> "m-5 -5l10 10m0 -10l-10 10";
            case 1 -> "m0 -6v12m-6 -6h12";
            case 2 -> "m-5 -5h10v10h-10z";
            default -> "m0 -6l6 6l-6 6l-6 -6z";
        };
        out.append(String.format(Locale.ROOT, "<path class=\"mark\" d=\"M%s %s%s\"/>\n", number(x), number(y), shape));
    }

    private static void dot(StringBuilder out, String css, double x, double y) {
        out.append(String.format(
                Locale.ROOT, "<circle class=\"%s\" cx=\"%s\" cy=\"%s\" r=\"3.5\"/>\n", css, number(x), number(y)));
    }

    private static void path(StringBuilder out, String css, String dash, List<Series.Point> points) {
        StringBuilder d = new StringBuilder();
        for (Series.Point point : points) {
            d.append(d.isEmpty() ? 'M' : 'L')
                    .append(number(point.x()))
                    .append(' ')
                    .append(number(point.y()));
        }
        out.append("<path class=\"").append(css).append("\" d=\"").append(d).append('"');
        if (!dash.isEmpty()) {
            out.append(" stroke-dasharray=\"").append(dash).append('"');
        }
        out.append("/>\n");
    }

    private static void text(StringBuilder out, double x, double y, String css, String anchor, String text) {
        out.append(String.format(
                Locale.ROOT,
                "<text x=\"%s\" y=\"%s\" class=\"%s\" text-anchor=\"%s\">%s</text>\n",
                number(x),
                number(y),
                css,
                anchor,
                escape(text)));
    }

    private static String number(double value) {
        return String.format(Locale.ROOT, "%.1f", value).replaceFirst("\\.0$", "");
    }

    static String escape(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("\"", "&quot;");
    }
}
