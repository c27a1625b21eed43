package dev.tandem.engine.strategy.select;

import dev.tandem.engine.strategy.StepPredictor.Work;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.OptionalInt;

/**
 * Which arm makes the steps, in which {@link Phase}: the part of the selector that only what was measured changes.
 *
 * <p>Owned by: engine thread; {@link #phase()} and {@link #losses()} may be read by any.
 */
final class ArmSelection {
    private static final Logger LOG = System.getLogger(ArmSelection.class.getName());

    /** A window takes at most so many times as long as gpu-only's: 1,024 steps full of prompts took 19 minutes. */
    private static final double MAX_WINDOW = 2;
    /** An arm that does less than this share while it warms up is given up; those that paid did 0.90 and more. */
    private static final double HOPELESS = 0.85;
    /** A host with so many times the rows that it had a window before still fills. Short outputs never fill it. */
    private static final double FILLS = 1.03;
    /** Work that windows may lose, in windows of gpu-only, before the arm has lost: less may be the windows'. */
    private static final double MAX_LOSS = 0.05;
    /** Work that windows have gained, in windows of gpu-only, and others may lose again: prompts come in waves. */
    private static final double MAX_CREDIT = 0.25;
    /** gpu-only is measured again when a token costs so many times as much, or as little, as it did. */
    private static final double COMPARABLE = 2;
    /** How much more another arm must do to stay: less may be the windows'. */
    private static final double CLEARLY = 1.02;
    /** Factor of the next pause after a clear loss: pauses that doubled cost {@code h200-16sm-26k} 4 %. */
    private static final int LONGER = 4;
    /** The longest pause, in first pauses. */
    private static final int MAX_PAUSE = 32;
    /** Windows over which arms are compared with each other. */
    private static final int TRIAL_WINDOWS = 2;

    private final List<String> arms;
    private final boolean guarded;
    private final ArmRanking ranking;
    private final SelectorLimits limits;
    private final Measurement measurement;
    private final ThroughputWindow gpuOnly;
    /** Of the arm's steps, since it was judged last. */
    private final ThroughputWindow window;
    /** Of the arm's steps in RUN. */
    private ThroughputWindow armRate;
    /** Of the steps in RUN of the arm before, while another is tried. */
    private ThroughputWindow incumbentRate;

    private volatile Phase phase;
    private volatile int losses;
    private int arm;
    /** The arm that has run while another is tried, else the same as {@link #arm}. */
    private int incumbent;
    /** The arm that was left, until no token is in flight. */
    private OptionalInt left = OptionalInt.empty();

    private int warmUps;
    private int hostTokens;
    private double credit;
    private int votes;
    private long pausedFor;
    private long pause;
    private long untilTrial;
    private long trialPause;

    /** What a completed step got done, and the seconds of gpu-only for one token as things were. */
    record Measured(Work work, double secondsPerToken, double took) {}

    /**
     * @param arms names of the arms that offload
     * @param guarded whether gpu-only is an arm
     */
    ArmSelection(List<String> arms, boolean guarded, ArmRanking ranking, SelectorLimits limits) {
        this.arms = arms;
        this.guarded = guarded;
        this.ranking = ranking;
        this.limits = limits;
        this.phase = guarded ? Phase.MEASURE : Phase.WARM_UP;
        this.pause = limits.pause();
        this.trialPause = limits.trialPause();
        this.measurement = new Measurement(limits.warmUps() * limits.window());
        this.gpuOnly = new ThroughputWindow(limits.window());
        this.window = new ThroughputWindow(limits.window());
        this.armRate = new ThroughputWindow(TRIAL_WINDOWS * limits.window());
        this.incumbentRate = new ThroughputWindow(TRIAL_WINDOWS * limits.window());
    }

    Phase phase() {
        return phase;
    }

    int losses() {
        return losses;
    }

    int arm() {
        return arm;
    }

    boolean isOffloading() {
        return phase == Phase.WARM_UP || phase == Phase.RUN;
    }

    /** Whether another arm is tried in place of the one that has run. */
    boolean isTrial() {
        return arm != incumbent;
    }

    /** The arm whose in-flight tokens return before another goes on. */
    OptionalInt left() {
        return left;
    }

    /** Steps of the pause that are left. */
    long pausedFor() {
        return pausedFor;
    }

    /** Whether a step of gpu-only counts in which offloading is not wanted. */
    boolean countsGpuOnly(Measurement.Demand demand) {
        return phase == Phase.PAUSE || measurement.hasBegun() && measurement.counts(demand);
    }

    /** Whether a step of gpu-only counts in which offloading is wanted. */
    boolean countsWanted(Measurement.Demand demand) {
        return measurement.counts(demand);
    }

    /** Whether offloading begins with a step that promises enough gain. */
    boolean begins(Measurement.Demand demand) {
        boolean measured =
                gpuOnly.isComplete() || measurement.hasBacklog(demand) && gpuOnly.steps() >= limits.minSteps();
        return !isOffloading() && measured && votes + 1 >= limits.minSteps();
    }

    /** A step has completed that was drafted with no token in flight. */
    void nothingInFlight() {
        left = OptionalInt.empty();
    }

    /** A step of a pause has completed. */
    void paused() {
        if (pausedFor > 0 && --pausedFor == 0 && phase == Phase.PAUSE) {
            phase = Phase.MEASURE;
        }
    }

    /** A step has completed that leaves no request on the host. */
    void hostIsEmpty() {
        if (phase == Phase.DRAIN) {
            phase = pausedFor > 0 ? Phase.PAUSE : Phase.MEASURE;
        }
    }

    /**
     * A step has completed for which an arm would offload. Offloading begins by prediction; only what was measured ends
     * it.
     *
     * @param enough whether as much gain was promised as is wanted
     * @param begins whether offloading begins with the step
     */
    void offered(boolean enough, boolean begins, Measurement.Demand demand) {
        if (isOffloading()) {
            return;
        }
        measurement.wanted(demand);
        votes = enough ? votes + 1 : 0;
        if (begins) {
            credit = 0;
            beginWarmUp();
        }
    }

    private void beginWarmUp() {
        phase = Phase.WARM_UP;
        votes = 0;
        warmUps = 0;
        hostTokens = 0;
        window.clear();
    }

    /** A step of gpu-only has completed that counts. */
    void countGpuOnly(Measured step) {
        gpuOnly.add(step.work(), step.secondsPerToken(), step.took());
    }

    /**
     * A step of an arm has completed. It counts unless the arm has been left since.
     *
     * @param hostTokensNow on the host when it was drafted
     * @param full whether the host had as many rows as pay
     */
    void count(int by, Measured step, int hostTokensNow, boolean full) {
        if (!isOffloading() || by != arm) {
            return;
        }
        if (phase == Phase.WARM_UP && full && !isTrial()) {
            run();
        }
        window.add(step.work(), step.secondsPerToken(), step.took());
        if (phase == Phase.RUN) {
            untilTrial--;
            armRate.add(step.work(), step.secondsPerToken(), step.took());
        }
        boolean tooLong = guarded
                && window.steps() >= limits.minSteps()
                && window.elapsed() > MAX_WINDOW * gpuOnly.horizonSeconds();
        if (window.isComplete() || tooLong) {
            if (phase == Phase.WARM_UP) {
                judgeWarmUp(hostTokensNow);
            } else {
                judge();
            }
            window.clear();
        }
    }

    private void run() {
        phase = Phase.RUN;
        window.clear();
        armRate.clear();
    }

    /** The first window of a trial is not judged: tokens that were in flight return in it. */
    private void judgeWarmUp(int hostTokensNow) {
        warmUps++;
        boolean fills = hostTokensNow > FILLS * hostTokens;
        hostTokens = hostTokensNow;
        if (isTrial() && warmUps > 1 && ranking.share(window, incumbentRate) < HOPELESS) {
            endTrial(ranking.share(window, incumbentRate));
        } else if (!isTrial() && guarded && ranking.share(window, gpuOnly) < HOPELESS) {
            lose(ranking.share(window, gpuOnly));
        } else if (!fills || warmUps >= limits.warmUps()) {
            run();
        }
    }

    private void judge() {
        if (isTrial()) {
            if (armRate.isComplete()) {
                endTrial(ranking.share(armRate, incumbentRate));
            }
            return;
        }
        if (guarded) {
            judgeAgainstGpuOnly();
        }
        if (phase == Phase.RUN && arms.size() > 1 && untilTrial <= 0 && armRate.isComplete()) {
            ThroughputWindow spare = incumbentRate;
            incumbentRate = armRate;
            armRate = spare;
            changeTo((arm + 1) % arms.size());
        }
    }

    private void judgeAgainstGpuOnly() {
        double change = window.secondsPerToken() / gpuOnly.secondsPerToken();
        if (Math.max(change, 1 / change) > COMPARABLE) {
            LOG.log(
                    Level.INFO,
                    "a token costs {0} ms instead of {1} now: gpu-only is measured again",
                    1e3 * window.secondsPerToken(),
                    1e3 * gpuOnly.secondsPerToken());
            gpuOnly.clear();
            stop();
            return;
        }
        double share = ranking.share(window, gpuOnly);
        credit = Math.min(MAX_CREDIT, credit + share - 1);
        if (share >= 1) {
            pause = limits.pause();
        }
        if (credit < -MAX_LOSS) {
            lose(share);
        }
    }

    /** @param share of what gpu-only does */
    private void lose(double share) {
        pausedFor = pause;
        if (share < 1 - MAX_LOSS) {
            pause = Math.min((long) MAX_PAUSE * limits.pause(), LONGER * pause);
        }
        losses++;
        stop();
        LOG.log(
                Level.WARNING,
                "{0} did {1} times as much as gpu-only over {2} steps: gpu-only for {3} steps",
                arms.get(arm),
                share,
                window.steps(),
                pausedFor);
    }

    private void stop() {
        phase = Phase.DRAIN;
        votes = 0;
        measurement.restart();
    }

    private void changeTo(int next) {
        left = OptionalInt.of(arm);
        arm = next;
        beginWarmUp();
    }

    /** @param share of what the incumbent does */
    private void endTrial(double share) {
        LOG.log(Level.INFO, "{0} did {1} times as much as {2}", arms.get(arm), share, arms.get(incumbent));
        if (share >= CLEARLY) {
            trialPause = limits.trialPause();
            incumbent = arm;
            credit = 0;
        } else {
            trialPause = Math.min((long) MAX_PAUSE * limits.trialPause(), LONGER * trialPause);
            changeTo(incumbent);
        }
        untilTrial = trialPause;
    }
}
