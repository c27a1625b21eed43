package dev.tandem.engine.executor;

/** GEMMs whose time is that of reading the weights up to some number of rows, and grows in proportion from there on. */
public final class CheapRows {
    private static final int MEASURED = 256;

    private CheapRows() {}

    /** Rows up to {@code count} cost nothing; 0 for {@link PiggybackedPrefill#NONE}. */
    public static PiggybackedPrefill upTo(int count) {
        return count == 0
                ? PiggybackedPrefill.NONE
                : PiggybackedPrefill.of(rows -> Math.max(count, rows), rows -> 0, MEASURED);
    }
}
