package dev.tandem.bench.report;

import java.util.List;

/**
 * One curve of a plot.
 *
 * @param name for the legend
 * @param points in the order in which they are joined
 * @param band lower and upper bounds, as of several seeds; empty for none
 */
public record Series(String name, List<Point> points, List<Band> band) {
    /** A point of a curve. */
    public record Point(double x, double y) {}

    /** Bounds of a curve at one place. */
    public record Band(double x, double low, double high) {}

    public Series {
        points = List.copyOf(points);
        band = List.copyOf(band);
    }

    /** A curve without a band. */
    public static Series of(String name, List<Point> points) {
        return new Series(name, points, List.of());
    }
}
