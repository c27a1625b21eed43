package dev.tandem.bench.reproduce;

import dev.tandem.bench.reproduce.Quantity.CurveName;
import java.util.ArrayList;
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
    double value(Quantity quantity) {
        return switch (quantity) {
            case Quantity.Value value -> curve(value.of()).getOrDefault(value.x(), Double.NaN);
            case Quantity.Gain gain -> gains(gain.of(), gain.to()).getOrDefault(gain.x(), Double.NaN);
            case Quantity.MaxGain gain -> max(within(gains(gain.of(), gain.to()), gain.range()));
            case Quantity.MinGain gain -> min(within(gains(gain.of(), gain.to()), gain.range()));
            case Quantity.Rise rise -> {
                NavigableMap<Double, Double> gains = gains(rise.of(), rise.to());
                yield max(gains.values().stream().toList()) / gains.firstEntry().getValue();
            }
            case Quantity.Fall fall -> {
                NavigableMap<Double, Double> gains = gains(fall.of(), fall.to());
                yield max(gains.values().stream().toList()) / gains.lastEntry().getValue();
            }
            case Quantity.GainSpread spread -> {
                List<Double> gains = within(gains(spread.of(), spread.to()), spread.range());
                yield max(gains) / min(gains);
            }
            case Quantity.Spread spread -> {
                List<Double> values = within(curve(spread.of()), spread.range());
                yield max(values) / min(values);
            }
            case Quantity.Load load -> load(load.of(), load.latency());
            case Quantity.LoadGain gain -> load(gain.of(), gain.latency()) / load(gain.to(), gain.latency());
            case Quantity.PeakOrder order -> {
                List<Double> peaks = order.panels().stream()
                        .map(panel -> max(
                                gains(new CurveName(panel, order.of()), new CurveName(panel, order.to()))
                                        .values()
                                        .stream()
                                        .toList()))
                        .toList();
                List<Double> steps = new ArrayList<>();
                for (int i = 1; i < peaks.size(); i++) {
                    steps.add(peaks.get(i) / peaks.get(i - 1));
                }
                yield min(steps);
            }
        };
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
     * The load at which the latency crosses the limit, by linear interpolation between two points. Where no point
     * crosses it, the last load is a lower bound of it; where all do, 0.
     */
    private double load(CurveName of, double limit) {
        double load = 0;
        double latency = 0;
        for (Map.Entry<Double, Double> point : curve(of).entrySet()) {
            if (point.getValue() > limit) {
                return load == 0
                        ? 0
                        : load + (point.getKey() - load) * (limit - latency) / (point.getValue() - latency);
            }
            load = point.getKey();
            latency = point.getValue();
        }
        return load;
    }

    private static List<Double> within(NavigableMap<Double, Double> curve, Band range) {
        return curve.entrySet().stream()
                .filter(point -> range.contains(point.getKey()))
                .map(Map.Entry::getValue)
                .toList();
    }

    private static double max(List<Double> values) {
        return values.stream().mapToDouble(Double::doubleValue).max().orElse(Double.NaN);
    }

    private static double min(List<Double> values) {
        return values.stream().mapToDouble(Double::doubleValue).min().orElse(Double.NaN);
    }
}
