package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.List;

/**
 * Never worse than GPU-only: offloading must prove its gain, predicted before each step and measured after. A gain
 * smaller than the cost model's own error is none.
 *
 * <p>A step's work is worth the seconds that GPU-only would need for it, so that a prompt that lands on the host counts like any
 * other. Until the host has the rows that pay most, steps with slots or second passes bring less than they will:
 * there the {@link Potential} decides, and windows are not judged, for a bounded time.
 *
 * <p>Two modes, GPU-only and offloading. Offloading begins after {@link Limits#votes} steps in a row whose prediction
 * asks for it, and goes on until it has lost over a window of steps against what GPU-only was measured to do; it is then switched
 * off for a time that doubles with each loss.
 *
 * <p>Owned by: engine thread.
 */
public final class Guard implements Policy {
    private static final Logger LOG = System.getLogger(Guard.class.getName());

    /**
     * @param margin least predicted gain, as a share, to begin
     * @param errorWeight how much of the cost model's error is added to the margin: what misses both steps alike cancels out
     * @param votes steps in a row that ask for it
     * @param window steps over which achieved throughput is compared with GPU-only's prediction, and predictions are averaged
     * @param pause steps without offloading after a loss, doubled with each further one
     * @param longestPause the doubling ends here
     * @param growth windows' steps that are not judged because the host is filling, at most, each time offloading begins
     */
    public record Limits(
            double margin, double errorWeight, int votes, int window, int pause, int longestPause, int growth) {
        public static final Limits DEFAULT = new Limits(0.05, 0.25, 64, 1024, 8192, 262_144, 6);
    }

    /** Share of the rows that pay most from which the host counts as full. */
    private static final double GROWN = 0.7;

    private final Policy strategy;
    private final Policy gpuOnly;
    private final StepPredictor predictor;
    private final Limits limits;
    private boolean offloading;
    private int votes;
    private long pausedFor;
    private int pause;
    private final List<Potential> potentials;
    private int windowSteps;
    private double windowWorth;
    private double windowSeconds;
    private double windowBaseline;
    private boolean growing;
    private int stepsOfGrowth;
    private double meanGain;
    private long predictions;
    /** What GPU-only's step is worth a second, as predicted, for the step under way; 0 when it is GPU-only itself. */
    private double baselineRate;
    private double offloadedWorth;
    /** Of the step under way when it is GPU-only's and offloading was considered; else 0. */
    private double plainWorth;
    private double meanPlainWorth;
    private double meanPlainSeconds;

    /**
     * @param kind of the strategy: what its steps may be
     * @param predictor for this executor, swaps included
     */
    public Guard(Policy strategy, Strategy kind, Policy gpuOnly, StepPredictor predictor, Limits limits) {
        this.strategy = strategy;
        this.gpuOnly = gpuOnly;
        this.predictor = predictor;
        this.limits = limits;
        this.pause = limits.pause();
        this.potentials = switch (kind) {
            case GPU_ONLY -> List.of();
            case ASYNC_OVERLAP -> List.of(new Potential(predictor, false));
            case APEX -> List.of(new Potential(predictor, false), new Potential(predictor, true));
            case SIMPLE_OFFLOAD, SYMMETRIC, FASTDECODE_PLUS, ASYMMETRIC, NEO -> List.of(new Potential(predictor, true));
        };
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        baselineRate = 0;
        plainWorth = 0;
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
        double aToken = predictor.aToken(plain.load(0));
        double offloadRate = rate(offload, aToken, why);
        double plainRate = rate(plain, aToken, why);
        if (plain.load(0).rows() == 0) {
            return offload(offload, 0, 0);
        }
        Potential.Outlook outlook = outlook(plain);
        growing = state.host().size() + state.inFlight().size() < GROWN * outlook.rows();
        double gain = meanGain(offloadRate, plainRate);
        if (growing) {
            gain = Math.max(gain, outlook.gain());
            predictions = 0; // of a host that is filling they say little about one that is full
        }
        double wanted = limits.margin() + limits.errorWeight() * predictor.cost().error();
        vote(gain >= wanted);
        if (!offloading) {
            why.because("guard: gain %.1f %% of at least %.1f %%, so gpu-only", gain * 100, wanted * 100);
            plainWorth = predictor.worth(plain, aToken);
            return plain;
        }
        return offload(offload, plainRate, predictor.worth(offload, aToken));
    }

    /** Steps differ: some land prompts, some do not. */
    private double meanGain(double offloadRate, double plainRate) {
        double gain = offloadRate / plainRate - 1;
        meanGain += (gain - meanGain) / Math.min(++predictions, limits.window());
        return meanGain;
    }

    private Potential.Outlook outlook(StepDraft plain) {
        Potential.Outlook best = new Potential.Outlook(0, 0);
        for (Potential potential : potentials) {
            Potential.Outlook outlook = potential.of(plain);
            best = outlook.gain() > best.gain() ? outlook : best;
        }
        return best;
    }

    private double rate(StepDraft draft, double aToken, Decision why) {
        double seconds = predictor.of(draft);
        double worth = predictor.worth(draft, aToken);
        int rows = draft.totalRows();
        int cpu = draft.load(0).cpuRows() + draft.load(1).cpuRows() + draft.admissions().size();
        why.consider(new Candidate(draft.shape(), rows, cpu, seconds, worth));
        return seconds > 0 ? worth / seconds : 0;
    }

    /** Offloading begins by prediction; only what was measured ends it. */
    private void vote(boolean gains) {
        votes = offloading || !gains ? 0 : votes + 1;
        if (votes >= limits.votes()) {
            votes = 0;
            offloading = true;
            stepsOfGrowth = 0;
            startWindow();
        }
    }

    private StepDraft offload(StepDraft draft, double plainRate, double worth) {
        baselineRate = plainRate;
        offloadedWorth = worth;
        return draft;
    }

    @Override
    public void completed(double achieved) {
        strategy.completed(achieved);
        if (plainWorth > 0 && achieved > 0) {
            double newest = 1.0 / limits.window();
            meanPlainWorth += newest * (plainWorth - meanPlainWorth);
            meanPlainSeconds += newest * (achieved - meanPlainSeconds);
        }
        if (baselineRate == 0 || !(achieved > 0)) {
            return;
        }
        if (growing && stepsOfGrowth < limits.growth() * limits.window()) {
            stepsOfGrowth++;
            return;
        }
        windowSteps++;
        windowWorth += offloadedWorth;
        windowSeconds += achieved;
        windowBaseline += baselineRate * achieved;
        if (windowSteps >= limits.window()) {
            if (windowWorth < baseline()) {
                lose();
            } else {
                pause = limits.pause();
            }
            startWindow();
        }
    }

    /** What GPU-only would have done in the window: as it did when it was last at work, else as predicted. */
    private double baseline() {
        return meanPlainSeconds > 0 ? meanPlainWorth / meanPlainSeconds * windowSeconds : windowBaseline;
    }

    private void lose() {
        rest();
        offloading = false;
        votes = 0;
        LOG.log(
                Level.WARNING,
                "offloading did in a second, over {0} steps, what GPU-only does in {1} s: GPU-only for {2} steps",
                windowSteps,
                windowWorth / baseline(),
                pausedFor);
    }

    private void rest() {
        pausedFor = pause;
        pause = Math.min(limits.longestPause(), 2 * pause);
    }

    private void startWindow() {
        windowSteps = 0;
        windowWorth = 0;
        windowSeconds = 0;
        windowBaseline = 0;
    }

    /** Whether the guard lets the strategy offload at present. */
    public boolean isOffloading() {
        return offloading && pausedFor == 0;
    }
}
