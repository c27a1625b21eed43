package dev.tandem.cuda.gemm;

import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.IntPredicate;
import java.util.function.IntUnaryOperator;
import java.util.stream.Collectors;

/**
 * For which numbers of rows gate, up and activation pay as one kernel (gemm_swiglu.cu) rather than as cublasLt's
 * product and a row-wise kernel. The one needs time in proportion to the turns that its tiles take; the other, nearly,
 * to the rows.
 */
public final class SwigluCrossover {
    public static final SwigluCrossover NEVER = new SwigluCrossover(rows -> false, "");
    public static final SwigluCrossover ALWAYS = new SwigluCrossover(rows -> true, "");

    private final IntPredicate pays;
    private final String text;

    private SwigluCrossover(IntPredicate pays, String text) {
        this.pays = pays;
        this.text = text;
    }

    /**
     * What two sets of measurements say.
     *
     * @param apart milliseconds of product and activation, by rows
     * @param together of the one kernel, for the same numbers of rows
     * @param turns that the one kernel's tiles take for so many rows
     */
    public static SwigluCrossover of(
            SortedMap<Integer, Double> apart, SortedMap<Integer, Double> together, IntUnaryOperator turns) {
        TreeMap<Integer, Double> row = new TreeMap<>();
        TreeMap<Integer, Double> turn = new TreeMap<>();
        apart.forEach((rows, millis) -> row.put(rows, millis / rows));
        together.forEach((rows, millis) -> turn.put(rows, millis / turns.applyAsInt(rows)));
        IntPredicate pays = rows ->
                rows >= row.firstKey() && between(turn, rows) * turns.applyAsInt(rows) < between(row, rows) * rows;
        String at =
                row.keySet().stream().filter(pays::test).map(String::valueOf).collect(Collectors.joining(", "));
        return new SwigluCrossover(pays, (at.isEmpty() ? "none" : at) + " of " + row.keySet());
    }

    /** On the line between the neighbours of {@code rows}; beyond the last as there. */
    private static double between(TreeMap<Integer, Double> known, int rows) {
        int low = known.floorKey(rows);
        Integer high = known.higherKey(rows);
        if (high == null) {
            return known.get(low);
        }
        double share = (double) (rows - low) / (high - low);
        return known.get(low) + share * (known.get(high) - known.get(low));
    }

    boolean pays(int rows) {
        return pays.test(rows);
    }

    /** At which of the measured numbers of rows it pays. */
    String text() {
        return text;
    }
}
