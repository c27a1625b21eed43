package dev.tandem.engine.strategy.select;

import dev.tandem.engine.strategy.StepPredictor.Work;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.Locale;
import java.util.OptionalInt;
import java.util.function.DoubleSupplier;

/**
 * The current arm and {@link Phase}: the part of the selector that changes only with measurements of completed steps.
 *
 * <p>Owned by: engine thread; {@link #phase()}, {@link #losses()} and {@link #measuredRatio()} may be read by any
 * thread.
 */
final class ArmSelection {
    private static final Logger LOG = System.getLogger(ArmSelection.class.getName());

    /** Max time of a window, in windows of gpu-only: 1,024 steps full of prompts took 19 minutes. */
    private static final double MAX_WINDOW_TIME = 2;
    /** An arm with a lower ratio of throughput while it warms up is stopped; arms that paid had 0.90 or more. */
    private static final double MIN_WARM_UP_RATIO = 0.85;
    /** Factor by which host tokens grow per window while the host still fills. Short outputs never fill it. */
    private static final double MIN_FILL_GROWTH = 1.03;
    /** Work that windows may lose before the arm has lost, in windows of gpu-only: less may be noise. */
    private static final double MAX_LOSS = 0.05;
    /** Max gained work that later windows may lose again, in windows of gpu-only: prompts come in waves. */
    private static final double MAX_CREDIT = 0.25;
    /** gpu-only is measured again when the time per token has changed by this factor. */
    private static final double MAX_TOKEN_CHANGE = 2;
    /** Min throughput of another arm over the incumbent's to replace it: less may be noise. */
    private static final double MIN_TRIAL_RATIO = 1.02;
    /** Factor of the next pause after a clear loss: with 2, throughput on {@code h200-16sm-26k} was 4 % lower. */
    private static final int PAUSE_GROWTH = 4;
    /** Max pause, in first pauses. */
    private static final int MAX_PAUSE = 32;
    /** Windows over which two arms are compared. */
    private static final int TRIAL_WINDOWS = 2;

    private final List<String> arms;
    private final boolean guarded;
    private final ArmRanking ranking;
    private final SelectorLimits limits;
    private final DoubleSupplier idealRatio;
    private final Measurement measurement;
    private final ThroughputWindow gpuOnly;
    /** The arm's steps since it was last judged. */
    private final ThroughputWindow window;
    /** The arm's steps in RUN. */
    private ThroughputWindow armRate;
    /** The incumbent's steps in RUN, while another arm is tried. */
    private ThroughputWindow incumbentRate;

    private volatile Phase phase;
    private volatile int losses;
    private volatile double measuredRatio = Double.NaN;
    /** Whether the log has the measured ratio since offloading began. */
    private boolean reported;

    private int arm;
    /** The arm that goes on if a trial fails; the same as {@link #arm} outside a trial. */
    private int incumbent;
    /** The arm that was tried last; trials go through all arms in turn. */
    private int challenger;
    /** Arms that are still to be tried before the pause between trials. */
    private int untried;
    /** The arm before the last change, until none of its tokens is in flight. */
    private OptionalInt leftArm = OptionalInt.empty();

    private int warmUps;
    private int hostTokens;
    /** Gained less lost work of the windows in RUN, in windows of gpu-only. */
    private double credit;
    /** Whether any step since the arm was last judged was one that other arms make too. */
    private boolean sharedSteps;
    /** Steps in a row that predict enough gain. */
    private int promisingSteps;

    private long pausedFor;
    private long pause;
    private long untilTrial;
    private long trialPause;

    /**
     * What is measured of a completed step.
     *
     * @param secondsPerToken of gpu-only in the step's state
     * @param promptsAdded seconds that prompts added to a step of gpu-only; 0 for other steps
     * @param took seconds
     */
    record Measured(Work work, double secondsPerToken, double promptsAdded, double took) {}

    /**
     * Creates a selection that begins with the first arm.
     *
     * @param arms names of the arms that offload
     * @param guarded whether gpu-only is an arm
     * @param idealRatio throughput of the best schedule over gpu-only's, for log lines; NaN where it is not known
     */
    ArmSelection(
            List<String> arms, boolean guarded, ArmRanking ranking, SelectorLimits limits, DoubleSupplier idealRatio) {
        this.arms = arms;
        this.guarded = guarded;
        this.ranking = ranking;
        this.limits = limits;
        this.idealRatio = idealRatio;
        this.phase = guarded ? Phase.MEASURE : Phase.WARM_UP;
        this.pause = limits.pause();
        this.trialPause = limits.trialPause();
        this.untried = arms.size() - 1;
        this.measurement = new Measurement(limits.warmUps() * limits.window());
        this.gpuOnly = new ThroughputWindow(limits.window());
        this.window = new ThroughputWindow(limits.window());
        this.armRate = new ThroughputWindow(TRIAL_WINDOWS * limits.window());
        this.incumbentRate = new ThroughputWindow(TRIAL_WINDOWS * limits.window());
    }

    private void enter(Phase next, String reason) {
        PhaseEvent event = new PhaseEvent();
        if (event.shouldCommit()) {
            event.from = phase.name().toLowerCase(Locale.ROOT);
            event.to = next.name().toLowerCase(Locale.ROOT);
            event.strategy = arms.get(arm);
            event.measuredRatio = measuredRatio;
            event.losses = losses;
            event.pauseSteps = pausedFor;
            event.reason = reason;
            event.commit();
        }
        phase = next;
    }

    Phase phase() {
        return phase;
    }

    int losses() {
        return losses;
    }

    /** Throughput of the last judged window over gpu-only's; NaN while not both are measured. */
    double measuredRatio() {
        return measuredRatio;
    }

    int arm() {
        return arm;
    }

    boolean isOffloading() {
        return phase == Phase.WARM_UP || phase == Phase.RUN;
    }

    /** Whether an arm is tried in place of the incumbent. */
    boolean isTrial() {
        return arm != incumbent;
    }

    /** The arm before the last change, while its tokens are in flight. */
    OptionalInt leftArm() {
        return leftArm;
    }

    /** Remaining steps of the pause. */
    long pausedFor() {
        return pausedFor;
    }

    /** Whether a step of gpu-only is measured in which no arm would offload. */
    boolean countsGpuOnly(Measurement.Demand demand) {
        return phase == Phase.PAUSE || measurement.hasBegun() && measurement.counts(demand);
    }

    /** Whether a step of gpu-only is measured in which an arm would offload. */
    boolean countsWanted(Measurement.Demand demand) {
        return measurement.counts(demand);
    }

    /** Whether offloading begins with a step that predicts enough gain. */
    boolean begins(Measurement.Demand demand) {
        boolean measured =
                gpuOnly.isComplete() || measurement.hasBacklog(demand) && gpuOnly.steps() >= limits.minSteps();
        return !isOffloading() && measured && promisingSteps + 1 >= limits.minSteps();
    }

    /** Notes that a step has completed that was drafted without in-flight tokens. */
    void nothingInFlight() {
        leftArm = OptionalInt.empty();
    }

    /** Counts a completed step of a pause. */
    void paused() {
        if (pausedFor > 0 && --pausedFor == 0 && phase == Phase.PAUSE) {
            enter(Phase.MEASURE, "the pause is over");
        }
    }

    /** Notes that the host is empty after a completed step. */
    void hostIsEmpty() {
        if (phase == Phase.DRAIN) {
            enter(pausedFor > 0 ? Phase.PAUSE : Phase.MEASURE, "the host is empty");
        }
    }

    /**
     * Counts a completed step in which an arm would offload. A prediction begins offloading; only a measurement ends
     * it.
     *
     * @param enough whether enough gain was predicted
     * @param begins whether offloading began with the step
     */
    void wouldOffload(boolean enough, boolean begins, Measurement.Demand demand) {
        if (isOffloading()) {
            return;
        }
        measurement.wanted(demand);
        promisingSteps = enough ? promisingSteps + 1 : 0;
        if (begins) {
            credit = 0;
            reported = false;
            beginWarmUp("enough steps in a row predict a gain");
        }
    }

    private void beginWarmUp(String reason) {
        enter(Phase.WARM_UP, reason);
        promisingSteps = 0;
        warmUps = 0;
        hostTokens = 0;
        clearWindow();
    }

    /** Adds a completed step to the measurement of gpu-only. */
    void countGpuOnly(Measured step) {
        gpuOnly.add(step.work(), step.secondsPerToken(), step.promptsAdded(), step.took());
    }

    /**
     * Adds a completed step to the measurement of an arm, unless that arm has been left since.
     *
     * @param by the arm that made the step
     * @param step work and time
     * @param hostTokensNow sequences on the host when the step was drafted
     * @param full whether the host was full
     * @param shared whether the other arms would have made the same step, so that no trial can compare them by it
     */
    void count(int by, Measured step, int hostTokensNow, boolean full, boolean shared) {
        if (!isOffloading() || by != arm) {
            return;
        }
        if (phase == Phase.WARM_UP && full && !isTrial()) {
            run("the host is full");
        }
        window.add(step.work(), step.secondsPerToken(), step.promptsAdded(), step.took());
        sharedSteps |= shared;
        if (phase == Phase.RUN) {
            untilTrial--;
            armRate.add(step.work(), step.secondsPerToken(), step.promptsAdded(), step.took());
        }
        boolean tooLong = guarded
                && window.steps() >= limits.minSteps()
                && window.elapsed() > MAX_WINDOW_TIME * gpuOnly.horizonSeconds();
        if (window.isComplete() || tooLong) {
            if (isTrial() && sharedSteps) {
                LOG.log(
                        Level.INFO,
                        "A trial of {0} ended, because its tokens in flight would miss their target; {1} goes on.",
                        arms.get(arm),
                        arms.get(incumbent));
                concludeTrial(false);
            } else if (phase == Phase.WARM_UP) {
                judgeWarmUp(hostTokensNow);
            } else {
                judge();
            }
            clearWindow();
        }
    }

    private void clearWindow() {
        window.clear();
        sharedSteps = false;
    }

    private void run(String reason) {
        enter(Phase.RUN, reason);
        clearWindow();
        armRate.clear();
    }

    /** The first window of a trial is not judged: in-flight tokens of the incumbent return in it. */
    private void judgeWarmUp(int hostTokensNow) {
        warmUps++;
        boolean fills = hostTokensNow > MIN_FILL_GROWTH * hostTokens;
        hostTokens = hostTokensNow;
        if (isTrial() && warmUps > 1 && ratioToIncumbent(window) < MIN_WARM_UP_RATIO) {
            endTrial(ratioToIncumbent(window));
        } else if (!isTrial() && guarded && ratioToGpuOnly() < MIN_WARM_UP_RATIO) {
            lose(ratioToGpuOnly());
        } else if (!fills || warmUps >= limits.warmUps()) {
            run(fills ? "the host has had its time to fill" : "the host no longer fills");
        }
    }

    private void judge() {
        if (isTrial()) {
            if (armRate.isComplete()) {
                endTrial(ratioToIncumbent(armRate));
            }
            return;
        }
        if (guarded) {
            judgeAgainstGpuOnly();
        }
        if (phase == Phase.RUN && arms.size() > 1 && untilTrial <= 0 && armRate.isComplete() && !sharedSteps) {
            ThroughputWindow spare = incumbentRate;
            incumbentRate = armRate;
            armRate = spare;
            challenger = next(challenger) == arm ? next(arm) : next(challenger);
            changeTo(challenger, "another strategy is tried");
        }
    }

    private int next(int of) {
        return (of + 1) % arms.size();
    }

    private void judgeAgainstGpuOnly() {
        double change = window.secondsPerToken() / gpuOnly.secondsPerToken();
        if (Math.max(change, 1 / change) > MAX_TOKEN_CHANGE) {
            LOG.log(
                    Level.INFO,
                    "gpu-only is now predicted to need {0,number,#.###} ms per token;"
                            + " it was {1,number,#.###} ms when gpu-only was measured."
                            + " Offloading stops until gpu-only is measured again; no action is needed.",
                    1e3 * window.secondsPerToken(),
                    1e3 * gpuOnly.secondsPerToken());
            gpuOnly.clear();
            measuredRatio = Double.NaN;
            stop("the predicted time per token has changed since gpu-only was measured");
            return;
        }
        double ratio = ratioToGpuOnly();
        measuredRatio = ratio;
        credit = Math.min(MAX_CREDIT, credit + ratio - 1);
        if (ratio >= 1) {
            pause = limits.pause();
        }
        if (credit < -MAX_LOSS) {
            lose(ratio);
        } else if (!reported) {
            reported = true;
            LOG.log(
                    Level.INFO,
                    "Offloading with {0} has {1,number,#.###} times the throughput of gpu-only over {2} steps{3}.",
                    arms.get(arm),
                    ratio,
                    window.steps(),
                    ideal());
        }
    }

    /**
     * The current window's work per second over gpu-only's. Prompts count either what they take in long steps, or what
     * they cost gpu-only, whichever is better for the arm: in a balance both agree, and they differ only while prompts
     * come in waves or fill the host.
     */
    private double ratioToGpuOnly() {
        return Math.max(ranking.ratio(window, gpuOnly, 1), ranking.ratio(window, gpuOnly, gpuOnly.promptCost()));
    }

    private double ratioToIncumbent(ThroughputWindow challengers) {
        return ranking.ratio(challengers, incumbentRate, 1);
    }

    private String ideal() {
        double ratio = idealRatio.getAsDouble();
        return Double.isNaN(ratio)
                ? ""
                : String.format(Locale.ROOT, "; the ideal of this machine is %.3f times", ratio);
    }

    /** @param ratio of the arm's throughput to gpu-only's */
    private void lose(double ratio) {
        measuredRatio = ratio;
        pausedFor = pause;
        if (ratio < 1 - MAX_LOSS) {
            pause = Math.min((long) MAX_PAUSE * limits.pause(), PAUSE_GROWTH * pause);
        }
        losses = losses() + 1;
        stop("offloading lost to gpu-only");
        LOG.log(
                Level.WARNING,
                "Offloading with {0} had {1,number,#.###} times the throughput of gpu-only over {2} steps{3}."
                        + " The server uses gpu-only for the next {4} steps and then measures again;"
                        + " no action is needed.",
                arms.get(arm),
                ratio,
                window.steps(),
                ideal(),
                pausedFor);
    }

    private void stop(String reason) {
        enter(Phase.DRAIN, reason);
        promisingSteps = 0;
        measurement.restart();
    }

    private void changeTo(int next, String reason) {
        leftArm = OptionalInt.of(arm);
        arm = next;
        beginWarmUp(reason);
    }

    /** @param ratio of the arm's throughput to the incumbent's */
    private void endTrial(double ratio) {
        boolean won = ratio >= MIN_TRIAL_RATIO;
        LOG.log(
                Level.INFO,
                "A trial of {0} had {1,number,#.###} times the throughput of {2}, so {3} goes on.",
                arms.get(arm),
                ratio,
                arms.get(incumbent),
                arms.get(won ? arm : incumbent));
        concludeTrial(won);
    }

    private void concludeTrial(boolean won) {
        if (won) {
            trialPause = limits.trialPause();
            incumbent = arm;
            credit = 0;
        } else {
            changeTo(incumbent, "the trial of another strategy has failed");
        }
        if (--untried > 0) {
            return; // the next one comes once the incumbent is measured
        }
        untried = arms.size() - 1;
        if (!won) {
            trialPause = Math.min((long) MAX_PAUSE * limits.trialPause(), PAUSE_GROWTH * trialPause);
        }
        untilTrial = trialPause;
    }
}
