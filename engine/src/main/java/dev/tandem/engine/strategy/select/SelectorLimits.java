package dev.tandem.engine.strategy.select;

/**
 * The margins and durations of a {@link StrategySelector}.
 *
 * @param margin min predicted gain to begin offloading, as a fraction
 * @param minSteps steps in a row that must predict the gain; also the min steps of a measurement
 * @param window steps over which throughput is measured and predictions are averaged
 * @param warmUps max windows in which the host may fill, and max windows of a server's first burst
 * @param pause steps of the first pause
 * @param trialPause steps between two trials of another arm
 */
public record SelectorLimits(double margin, int minSteps, int window, int warmUps, int pause, int trialPause) {
    /**
     * The limits of a server. The simulations of ADR 18 chose windows, warm-ups and pauses; without them offloading
     * lost 2 to 9 % to gpu-only. The simulations of ADR 21 chose the time between trials; 8,192 steps cost 3 to 9 %.
     */
    public static final SelectorLimits DEFAULT = new SelectorLimits(0.05, 64, 1024, 6, 8192, 131_072);
}
