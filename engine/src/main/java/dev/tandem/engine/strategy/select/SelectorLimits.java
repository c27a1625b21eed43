package dev.tandem.engine.strategy.select;

/**
 * How long a {@link StrategySelector} measures, waits and pauses.
 *
 * @param margin min predicted gain, as a share, to begin
 * @param minSteps steps in a row that must promise the gain, and the fewest that make a measurement
 * @param window steps over which throughput is measured and predictions are averaged
 * @param warmUps max windows in which the host may fill, and in which a server's first burst is not measured
 * @param pause steps of the first pause
 * @param trialPause steps between two trials of another arm
 */
public record SelectorLimits(double margin, int minSteps, int window, int warmUps, int pause, int trialPause) {
    /**
     * The simulations of ADR 18 chose windows, warm-ups and pauses; without its rules offloading lost 2 to 9 % to
     * gpu-only. Those of ADR 21 chose the time between trials: one after 8,192 steps costs 3 to 9 %.
     */
    public static final SelectorLimits DEFAULT = new SelectorLimits(0.05, 64, 1024, 6, 8192, 131_072);
}
