package dev.tandem.bench.reproduce;

import java.util.List;
import java.util.stream.Stream;

/**
 * What a claim is about, as one number that follows from a figure's curves. A gain is throughput of one system divided
 * by throughput of another, or latency the other way round, so that more is better in every figure.
 */
public sealed interface Quantity {
    /** A curve: a system in a panel. */
    record CurveName(String panel, String system) {}

    /** The curves that the quantity needs. */
    List<CurveName> curves();

    /** A quantity of one curve. */
    sealed interface OfOne extends Quantity {
        /** The curve. */
        CurveName of();

        @Override
        default List<CurveName> curves() {
            return List.of(of());
        }
    }

    /** A quantity that compares two curves. */
    sealed interface OfTwo extends Quantity {
        /** The curve that is compared. */
        CurveName of();

        /** The curve that it is compared to. */
        CurveName to();

        @Override
        default List<CurveName> curves() {
            return List.of(of(), to());
        }
    }

    /** The value of a curve at {@code x}. */
    record Value(CurveName of, double x) implements OfOne {}

    /** The gain at {@code x}. */
    record Gain(CurveName of, CurveName to, double x) implements OfTwo {}

    /** The largest gain where x is within the range. */
    record MaxGain(CurveName of, CurveName to, Band range) implements OfTwo {}

    /** The smallest gain where x is within the range. */
    record MinGain(CurveName of, CurveName to, Band range) implements OfTwo {}

    /** The largest gain divided by the gain at the first x: above 1 where the gain rises at first. */
    record Rise(CurveName of, CurveName to) implements OfTwo {}

    /** The largest gain divided by the gain at the last x: above 1 where the gain falls at the end. */
    record Fall(CurveName of, CurveName to) implements OfTwo {}

    /** The largest gain divided by the smallest where x is within the range: 1 where the gain is flat. */
    record GainSpread(CurveName of, CurveName to, Band range) implements OfTwo {}

    /** The largest value of a curve divided by its smallest where x is within the range. */
    record Spread(CurveName of, Band range) implements OfOne {}

    /** The load in requests per second at which the latency in seconds crosses a limit. */
    record Load(CurveName of, double latency) implements OfOne {}

    /** The ratio of two loads as {@link Load}. */
    record LoadGain(CurveName of, CurveName to, double latency) implements OfTwo {}

    /** The smallest step of the largest gains from each panel to the next: above 1 where they rise. */
    record PeakOrder(List<String> panels, String of, String to) implements Quantity {
        @Override
        public List<CurveName> curves() {
            return panels.stream()
                    .flatMap(panel -> Stream.of(new CurveName(panel, of), new CurveName(panel, to)))
                    .toList();
        }
    }
}
