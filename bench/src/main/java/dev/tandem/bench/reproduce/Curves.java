package dev.tandem.bench.reproduce;

import dev.tandem.bench.reproduce.Quantity.CurveName;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * The curves of one figure, one fidelity and one seed.
 *
 * @param moreIsBetter whether a larger value is better
 * @param values of each curve, by x
 */
record Curves(boolean moreIsBetter, Map<CurveName, NavigableMap<Double, Double>> values) {
    /** Collects the points of one seed. */
    static Curves of(Experiment experiment, List<Point> points) {
        Map<CurveName, NavigableMap<Double, Double>> values = new LinkedHashMap<>();
        for (Point point : points) {
            values.computeIfAbsent(
                            new CurveName(point.cell().panel(), point.cell().system()), _ -> new TreeMap<>())
                    .put(point.x(), point.value());
        }
        return new Curves(experiment.moreIsBetter(), values);
    }

    /** The quantity's value; NaN where no point is in its range. */
    Estimate value(Quantity quantity) {
        return switch (quantity) {
            case Quantity.Load load -> load(load.of(), load.latency());
            case Quantity.LoadGain gain -> load(gain.of(), gain.latency()).over(load(gain.to(), gain.latency()));
            case Quantity.Value value -> Estimate.of(curve(value.of()).getOrDefault(value.x(), Double.NaN));
            case Quantity.Gain gain -> Estimate.of(gains(gain.of(), gain.to()).getOrDefault(gain.x(), Double.NaN));
            case Quantity.MaxGain gain -> Estimate.of(max(within(gains(gain.of(), gain.to()), gain.range())));
            case Quantity.MinGain gain -> Estimate.of(min(within(gains(gain.of(), gain.to()), gain.range())));
            case Quantity.Rise rise -> {
                NavigableMap<Double, Double> gains = gains(rise.of(), rise.to());
                yield Estimate.of(
                        gains.isEmpty()
                                ? Double.NaN
                                : max(gains.values()) / gains.firstEntry().getValue());
            }
            case Quantity.Fall fall -> {
                NavigableMap<Double, Double> gains = gains(fall.of(), fall.to());
                yield Estimate.of(
                        gains.isEmpty()
                                ? Double.NaN
                                : max(gains.values()) / gains.lastEntry().getValue());
            }
            case Quantity.GainSpread spread -> {
                List<Double> gains = within(gains(spread.of(), spread.to()), spread.range());
                yield Estimate.of(max(gains) / min(gains));
            }
            case Quantity.Spread spread -> {
                List<Double> values = within(curve(spread.of()), spread.range());
                yield Estimate.of(max(values) / min(values));
            }
            case Quantity.PeakOrder order -> Estimate.of(min(peakSteps(order)));
        };
    }

    private List<Double> peakSteps(Quantity.PeakOrder order) {
        List<Double> peaks = order.panels().stream()
                .map(panel -> max(gains(new CurveName(panel, order.of()), new CurveName(panel, order.to()))
                        .values()))
                .toList();
        List<Double> steps = new ArrayList<>();
        for (int i = 1; i < peaks.size(); i++) {
            steps.add(peaks.get(i) / peaks.get(i - 1));
        }
        return steps;
    }

    private NavigableMap<Double, Double> curve(CurveName name) {
        NavigableMap<Double, Double> curve = values.get(name);
        if (curve == null) {
            throw new IllegalArgumentException("no point of " + name.panel() + "/" + name.system() + " was computed");
        }
        return curve;
    }

    /** Gains at the horizontal values that both curves have. */
    private NavigableMap<Double, Double> gains(CurveName of, CurveName to) {
        NavigableMap<Double, Double> base = curve(to);
        NavigableMap<Double, Double> gains = new TreeMap<>();
        curve(of).forEach((x, value) -> {
            Double other = base.get(x);
            if (other != null) {
                gains.put(x, moreIsBetter ? value / other : other / value);
            }
        });
        return gains;
    }

    /**
     * The load at which the latency crosses the limit, by linear interpolation between two points. Where no point is
     * above the limit, the load is above the last one; where all are, it is below the first.
     */
    private Estimate load(CurveName of, double limit) {
        NavigableMap<Double, Double> curve = curve(of);
        Map.Entry<Double, Double> before = null;
        for (Map.Entry<Double, Double> point : curve.entrySet()) {
            if (point.getValue() <= limit) {
                before = point;
            } else if (before == null) {
                return new Estimate(0, point.getKey());
            } else {
                double share = (limit - before.getValue()) / (point.getValue() - before.getValue());
                return Estimate.of(before.getKey() + share * (point.getKey() - before.getKey()));
            }
        }
        return new Estimate(curve.lastKey(), Double.POSITIVE_INFINITY);
    }

    private static List<Double> within(NavigableMap<Double, Double> curve, Band range) {
        return curve.entrySet().stream()
                .filter(point -> range.contains(point.getKey()))
                .map(Map.Entry::getValue)
                .toList();
    }

    private static double max(Collection<Double> values) {
        return values.stream().mapToDouble(Double::doubleValue).max().orElse(Double.NaN);
    }

    private static double min(Collection<Double> values) {
        return values.stream().mapToDouble(Double::doubleValue).min().orElse(Double.NaN);
    }
}
