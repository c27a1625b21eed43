package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;

/**
 * Never worse than GPU-only: offloading must prove its gain, predicted before each step and measured after. A gain
 * smaller than the cost model's own error is none.
 *
 * <p>Two modes, GPU-only and offloading. The mode changes after {@link Limits#votes} steps in a row whose prediction
 * asks for it, beginning to offload asks for more gain than going on, and offloading that lost over a window of steps
 * is switched off for a time that doubles with each loss.
 *
 * <p>Owned by: engine thread.
 */
public final class Guard implements Policy {
    private static final Logger LOG = System.getLogger(Guard.class.getName());

    /**
     * @param margin least predicted gain, as a share, to go on offloading
     * @param errorWeight how much of the cost model's error is added to the margin
     * @param hysteresis what beginning asks for beyond the margin
     * @param votes steps in a row that change the mode
     * @param window steps over which achieved throughput is compared with GPU-only's prediction
     * @param pause steps without offloading after a loss, doubled with each further one
     * @param longestPause the doubling ends here
     */
    public record Limits(
            double margin, double errorWeight, double hysteresis, int votes, int window, int pause, int longestPause) {
        public static final Limits DEFAULT = new Limits(0.02, 1, 0.03, 8, 64, 512, 65_536);
    }

    private final Policy strategy;
    private final Policy gpuOnly;
    private final StepPredictor predictor;
    private final Limits limits;
    private boolean offloading;
    private int votes;
    private long pausedFor;
    private int pause;
    private int windowSteps;
    private double windowRequests;
    private double windowSeconds;
    private double windowBaseline;
    /** GPU-only's predicted requests a second for the step under way; 0 when it is GPU-only itself. */
    private double baselineRate;
    private double offloadedRequests;

    /** @param predictor for this executor, swaps included */
    public Guard(Policy strategy, Policy gpuOnly, StepPredictor predictor, Limits limits) {
        this.strategy = strategy;
        this.gpuOnly = gpuOnly;
        this.predictor = predictor;
        this.limits = limits;
        this.pause = limits.pause();
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        baselineRate = 0;
        if (pausedFor > 0) {
            pausedFor--;
            StepDraft plain = gpuOnly.draft(state, new Decision());
            why.because("guard: offloading lost, so gpu-only for %d more steps", pausedFor);
            return plain;
        }
        StepDraft offload = strategy.draft(state, why);
        if (!offload.offloads()) {
            return offload;
        }
        StepDraft plain = gpuOnly.draft(state, new Decision());
        double offloadRate = rate(offload, why);
        double plainRate = rate(plain, why);
        if (plain.load(0).rows() == 0) {
            return offload(offload, 0);
        }
        double gain = offloadRate / plainRate - 1;
        double wanted = limits.margin() + limits.errorWeight() * predictor.cost().error() + (offloading ? 0 : limits.hysteresis());
        vote(gain >= wanted);
        if (!offloading) {
            why.because("guard: gain %.1f %% of at least %.1f %%, so gpu-only", gain * 100, wanted * 100);
            return plain;
        }
        return offload(offload, plainRate);
    }

    private double rate(StepDraft draft, Decision why) {
        double seconds = predictor.of(draft);
        double requests = predictor.requests(draft);
        int rows = draft.totalRows();
        int cpu = draft.load(0).cpuRows() + draft.load(1).cpuRows() + draft.admissions().size();
        why.consider(new Candidate(draft.shape(), rows, cpu, seconds, requests));
        return seconds > 0 ? requests / seconds : 0;
    }

    private void vote(boolean gains) {
        votes = gains == offloading ? 0 : votes + 1;
        if (votes >= limits.votes()) {
            votes = 0;
            offloading = gains;
            startWindow();
        }
    }

    private StepDraft offload(StepDraft draft, double plainRate) {
        baselineRate = plainRate;
        offloadedRequests = predictor.requests(draft);
        return draft;
    }

    @Override
    public void completed(double achieved) {
        strategy.completed(achieved);
        if (baselineRate == 0 || !(achieved > 0)) {
            return;
        }
        windowSteps++;
        windowRequests += offloadedRequests;
        windowSeconds += achieved;
        windowBaseline += baselineRate * achieved;
        if (windowSteps >= limits.window()) {
            if (windowRequests < windowBaseline) {
                lose();
            } else {
                pause = limits.pause();
            }
            startWindow();
        }
    }

    private void lose() {
        pausedFor = pause;
        pause = Math.min(limits.longestPause(), 2 * pause);
        offloading = false;
        votes = 0;
        LOG.log(
                Level.WARNING,
                "offloading brought {0} requests/s over {1} steps where GPU-only was predicted to bring {2}: GPU-only for"
                        + " {3} steps",
                windowRequests / windowSeconds,
                windowSteps,
                windowBaseline / windowSeconds,
                pausedFor);
    }

    private void startWindow() {
        windowSteps = 0;
        windowRequests = 0;
        windowSeconds = 0;
        windowBaseline = 0;
    }

    /** Whether the guard lets the strategy offload at present. */
    public boolean isOffloading() {
        return offloading && pausedFor == 0;
    }
}
