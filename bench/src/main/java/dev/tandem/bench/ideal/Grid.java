package dev.tandem.bench.ideal;

import java.util.ArrayList;
import java.util.List;
import java.util.function.DoublePredicate;

/**
 * The sizes of the step shapes that are tried.
 *
 * @param firstHostTokens the fewest host tokens per step
 * @param hostTokensRatio of one number of host tokens to the one before
 * @param hostTokensSteps how many numbers of host tokens
 * @param promptRatio of one prompt chunk to the one before
 * @param bounds whether the largest number of host tokens that a step may have is tried too, and prompts that end tiles
 */
record Grid(double firstHostTokens, double hostTokensRatio, int hostTokensSteps, double promptRatio, boolean bounds) {
    /** Without the bounds, a grid of this ratio loses up to a tenth of the gain where memory or waiting binds. */
    static final Grid FINE = new Grid(0.02, 1.25, 56, Math.sqrt(2), true);

    private static final int FIRST_PROMPT_TOKENS = 16;
    private static final int BISECTIONS = 30;
    private static final int TILE = 64;

    /** The numbers of host tokens that are allowed; fewer are allowed where more are. */
    List<Double> hostTokens(DoublePredicate allowed) {
        List<Double> numbers = new ArrayList<>();
        double refused = firstHostTokens;
        for (int i = 0; i < hostTokensSteps && allowed.test(refused); i++) {
            numbers.add(refused);
            refused *= hostTokensRatio;
        }
        if (bounds && !numbers.isEmpty()) {
            double low = numbers.getLast();
            double high = refused;
            for (int i = 0; i < BISECTIONS; i++) {
                double middle = (low + high) / 2;
                if (allowed.test(middle)) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            numbers.add(low);
        }
        return numbers;
    }

    /**
     * Prompt chunks of less than {@code limit} tokens, and none. GEMMs compute whole tiles, so chunks of a tile or more
     * end one together with the step's decodes.
     */
    List<Double> prompts(int limit, double decodes) {
        List<Double> prompts = new ArrayList<>(List.of(0.0));
        for (double tokens = FIRST_PROMPT_TOKENS; tokens < limit; tokens *= promptRatio) {
            prompts.add((double) Math.round(tokens));
            double whole = Math.round(tokens / TILE) * TILE - decodes;
            if (bounds && whole > TILE && whole < limit) {
                prompts.add(whole);
            }
        }
        return prompts;
    }
}
