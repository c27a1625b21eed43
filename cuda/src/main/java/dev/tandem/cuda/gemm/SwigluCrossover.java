package dev.tandem.cuda.gemm;

import java.util.Map;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.IntPredicate;
import java.util.function.IntUnaryOperator;
import java.util.stream.Collectors;

/**
 * Says for which row counts gate, up and SwiGLU are faster as one kernel (gemm_swiglu.cu) than as cublasLt's GEMM and a
 * row-wise kernel. The time of the one kernel is proportional to the turns of its tiles. The time of the two is nearly
 * proportional to the rows.
 */
public final class SwigluCrossover {
    /** Always two kernels. */
    public static final SwigluCrossover NEVER = new SwigluCrossover(rows -> false, "");
    /** Always one kernel. */
    public static final SwigluCrossover ALWAYS = new SwigluCrossover(rows -> true, "");

    private final IntPredicate pays;
    private final String text;

    private SwigluCrossover(IntPredicate pays, String text) {
        this.pays = pays;
        this.text = text;
    }

    /**
     * The crossover that two sets of measurements show.
     *
     * @param apart milliseconds of GEMM and SwiGLU as two kernels, by rows
     * @param together milliseconds of the one kernel, for the same row counts
     * @param turns of the one kernel's tiles, by rows
     */
    public static SwigluCrossover of(
            SortedMap<Integer, Double> apart, SortedMap<Integer, Double> together, IntUnaryOperator turns) {
        NavigableMap<Integer, Double> row = new TreeMap<>();
        NavigableMap<Integer, Double> turn = new TreeMap<>();
        apart.forEach((rows, millis) -> row.put(rows, millis / rows));
        together.forEach((rows, millis) -> turn.put(rows, millis / turns.applyAsInt(rows)));
        IntPredicate pays = rows ->
                rows >= row.firstKey() && between(turn, rows) * turns.applyAsInt(rows) < between(row, rows) * rows;
        String at =
                row.keySet().stream().filter(pays::test).map(String::valueOf).collect(Collectors.joining(", "));
        return new SwigluCrossover(pays, (at.isEmpty() ? "none" : at) + " of " + row.keySet());
    }

    /** Linear interpolation between the neighbours of {@code rows}; the last value beyond it. */
    private static double between(NavigableMap<Integer, Double> known, int rows) {
        Map.Entry<Integer, Double> low =
                Objects.requireNonNull(known.floorEntry(rows), "rows below those that were measured");
        Map.Entry<Integer, Double> high = known.higherEntry(rows);
        if (high == null) {
            return low.getValue();
        }
        double fraction = (double) (rows - low.getKey()) / (high.getKey() - low.getKey());
        return low.getValue() + fraction * (high.getValue() - low.getValue());
    }

    boolean pays(int rows) {
        return pays.test(rows);
    }

    /** The measured row counts at which the one kernel is faster, for the log. */
    String text() {
        return text;
    }
}
