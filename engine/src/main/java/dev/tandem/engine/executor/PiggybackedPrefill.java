package dev.tandem.engine.executor;

import java.util.Arrays;
import java.util.function.IntToDoubleFunction;

/**
 * What prompt tokens cost in decode steps. The time of a GEMM with few rows is the time to read the weights and hardly
 * depends on the number of rows, so there prompt tokens cost far less than in a step of their own.
 */
public final class PiggybackedPrefill {
    /** No prompt token is piggybacked. */
    public static final PiggybackedPrefill NONE = new PiggybackedPrefill(new int[0], new double[0], new double[0], 0);

    /** Tokens that a prompt token attends to on average: half of a prompt of 1,000 tokens. */
    public static final int CONTEXT = 512;

    /** The smallest number of rows that is measured. */
    private static final int MIN_ROWS = 8;
    /** Min decode rows of a step with piggybacked prompts. */
    private static final int MIN_DECODES = 8;
    /**
     * Max cost of a piggybacked row, as a fraction of the cost of a row in a long prompt. On an H200 the last of 192
     * rows cost 0.52, the last of 256 rows 0.64 or more.
     */
    private static final double MAX_COST = 0.58;

    /** Numbers of rows that are measured. */
    private static final int[] CANDIDATES = {MIN_ROWS, 16, 32, 48, 64, 96, 128, 160, 192, 256};

    private final int[] rows;
    private final double[] gemms;
    private final double[] attention;
    private final int maxRows;

    private PiggybackedPrefill(int[] rows, double[] gemms, double[] attention, int maxRows) {
        this.rows = rows;
        this.gemms = gemms;
        this.attention = attention;
        this.maxRows = maxRows;
    }

    /**
     * What prompt tokens cost by measured times, all in one unit.
     *
     * @param gemms time of the GEMMs of a step by number of rows
     * @param attention time of the attention of so many prompt tokens with a context of {@link #CONTEXT}
     * @param capacity max rows for which both are defined, at least {@link #MIN_ROWS}
     */
    public static PiggybackedPrefill of(IntToDoubleFunction gemms, IntToDoubleFunction attention, int capacity) {
        int[] rows =
                Arrays.stream(CANDIDATES).filter(count -> count <= capacity).toArray();
        double[] times = Arrays.stream(rows).mapToDouble(gemms).toArray();
        return new PiggybackedPrefill(
                rows, times, Arrays.stream(rows).mapToDouble(attention).toArray(), maxRows(rows, times));
    }

    /** The cost of the last rows decides: where 192 rows are cheap, 64 more at full cost belong in another step. */
    private static int maxRows(int[] rows, double[] gemms) {
        int last = rows.length - 1;
        double perRow = gemms[last] / rows[last];
        int best = 0;
        for (int i = 1; i <= last; i++) {
            if ((gemms[i] - gemms[best]) / (rows[i] - rows[best]) <= MAX_COST * perRow) {
                best = i;
            }
        }
        return rows[best];
    }

    /**
     * Rows of a step up to which prompt tokens cost little; 8 where every row costs the same, and 0 of {@link #NONE}.
     */
    public int maxRows() {
        return maxRows;
    }

    /** Whether prompt tokens cost little in a step with so many decodes. */
    public boolean pays(int decodes) {
        return decodes >= MIN_DECODES && decodes < maxRows;
    }

    /**
     * The rows of steps with prompts that decode most tokens per second while requests keep coming (ADR 133). Each
     * sequence that ends makes room for a prompt, which holds blocks without a decode until it is computed. With many
     * rows prompts take few steps, and one at a time is computed. With few rows each step has prompt tokens, and as
     * many sequences decode as these make. Where all sequences would have more decodes than rows are measured, prompts
     * are computed at once.
     *
     * @param sequences that have room on the GPU, those whose prompt is not computed included
     * @param promptTokens that come with each output token, on average
     * @return 0 where in all these steps fewer than half of the sequences would decode; the max of an integer where
     *     prompts are computed at once
     */
    public int rows(int sequences, double promptTokens) {
        if (rows.length == 0 || sequences >= rows[rows.length - 1]) {
            return Integer.MAX_VALUE;
        }
        int best = 0;
        double maxRate = 0;
        for (int count : rows) {
            boolean half = count / (1 + promptTokens) >= 0.5 * sequences;
            double rate = count > sequences && half ? rate(sequences, promptTokens, count) : 0;
            if (rate > maxRate) {
                best = count;
                maxRate = rate;
            }
        }
        return best;
    }

    /** Decoded tokens per unit of time of steps with prompts of so many rows. */
    private double rate(int sequences, double promptTokens, int count) {
        int chunk = count - sequences;
        if (promptTokens * sequences > chunk) {
            double decodes = count / (1 + promptTokens);
            return decodes / (at(gemms, count) + at(attention, (int) Math.ceil(count - decodes)));
        }
        double alone = at(gemms, sequences);
        double share = promptTokens * sequences / chunk;
        return (sequences - share) / (alone + share * (at(gemms, count) + at(attention, chunk) - alone));
    }

    /** Time of a number of rows, which is padded to a measured one. */
    private double at(double[] times, int count) {
        int index = Arrays.binarySearch(rows, count);
        return times[index < 0 ? -index - 1 : index];
    }

    /**
     * Seconds of the GEMMs of a step with decodes and prompt tokens, on average: some steps have more prompt tokens and
     * others fewer, where that takes less time.
     *
     * @param gemms seconds by number of rows
     * @param decodes of each step
     * @param prompts tokens of a step, on average
     */
    public static double mixed(IntToDoubleFunction gemms, int decodes, int prompts) {
        int mean = decodes + prompts;
        double equal = gemms.applyAsDouble(mean);
        if (prompts == 0 || mean >= CANDIDATES[CANDIDATES.length - 1]) {
            return equal;
        }
        int fewer = decodes;
        for (int rows : CANDIDATES) {
            if (rows > decodes && rows <= mean) {
                fewer = rows;
            }
        }
        double alone = gemms.applyAsDouble(decodes);
        double some = fewer == decodes ? alone : gemms.applyAsDouble(fewer);
        double min = equal;
        for (int more : CANDIDATES) {
            if (more > mean) {
                double seconds = gemms.applyAsDouble(more);
                min = Math.min(min, alone + (seconds - alone) * prompts / (more - decodes));
                min = Math.min(min, some + (seconds - some) * (mean - fewer) / (more - fewer));
            }
        }
        return min;
    }
}
