package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.QueueTrend;
import dev.tandem.engine.strategy.SpeedupEstimate;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.StepPredictor.Work;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.function.DoubleSupplier;

/**
 * Chooses the arm that makes the next step, gpu-only or one that offloads, by measured throughput.
 *
 * <p>With gpu-only as an arm, the selector is the guard. An arm that offloads starts once gpu-only is measured in steps
 * in which that arm would have offloaded, if the queue lasts or the expected gain is clear. It stops once it has lost
 * work against that measurement. Arms that offload are also measured against each other. {@link Phase} says what each
 * phase measures and what ends it; {@link ArmRanking} says which of two windows is better. Where an arm would not use
 * an empty host, the step is gpu-only's draft.
 *
 * <p>A draft changes no state of the selector; a completed step does.
 *
 * <p>Owned by: engine thread; {@link #phase()}, {@link #isOffloading()}, {@link #losses()}, {@link #expectedGain()} and
 * {@link #measuredGain()} may be read by any thread.
 */
public final class StrategySelector implements Policy {
    /**
     * Fraction of the cost model's error that is added to the margin. It is not all of the error, because an error that
     * both steps have in common cancels out.
     */
    private static final double ERROR_WEIGHT = 0.25;
    /**
     * Min expected gain, as a fraction of gpu-only, for which offloading begins though the queue ends soon. Without
     * this exception, 60 requests on presets of two requests lose their gain of 12 to 26 %. With 0.15, 300 requests of
     * 1000/200 on {@code h200-16sm-26k} have 0.964 of GPU-only; 0.3, 0.5 and 1 are equal in 32 whole runs (ADR 105).
     */
    private static final double CLEAR_GAIN = 0.5;
    /**
     * Steps for which the selector holds an arm in its pipeline though it would enter async overlap. Tokens that are
     * admitted in a single step keep the pipeline waiting until they have passed all layers. With 32 steps throughput
     * on {@code h200-16sm-26k} 1000/400 was 1 % lower, with 2 and 8 it was not (simulated).
     */
    static final int PIPELINE_STAYS = 8;
    /** Max drafts whose steps have not completed: two steps may run, and drafts between them may be dropped. */
    private static final int MAX_PENDING = 8;

    private final List<Arm> arms;
    private final Optional<Baseline> baseline;
    private final StepPredictor predictor;
    private final ArmRanking ranking;
    private final double margin;
    private final ExpectedGain expectedGain;
    private final ArmSelection selection;
    private final ArrayDeque<Drafted> pending = new ArrayDeque<>(MAX_PENDING);
    private final Optional<GpuDemand> gpuDemand;
    /**
     * Says whether the queue goes on for more than two windows, one to fill the host and one to measure. A host that is
     * filled for less is drained again before it has paid.
     */
    private final QueueTrend queue;

    private int pipelineStays = PIPELINE_STAYS;
    private volatile double expected = Double.NaN;
    /** False while the GPU alone can do the work that arrives; always true without a target. */
    private volatile boolean hostNeeded;

    /**
     * gpu-only as an arm.
     *
     * @param policy drafts the steps of gpu-only
     * @param drain drafts the steps of {@link Phase#DRAIN}
     * @param gpuFirst whether the other arms leave the host unused while the GPU has room for all requests
     * @param perTokenNanos target of a host sequence per token; 0 for none. With a target the other arms leave the host
     *     unused while the GPU alone can do the work that arrives, and where no gain is predicted within the target
     */
    public record Baseline(Policy policy, Policy drain, boolean gpuFirst, long perTokenNanos) {}

    /**
     * A draft, and what changes once its step has completed.
     *
     * @param draft of the step
     * @param ofPause whether it is a step of a pause
     * @param hostTokens sequences on the host when it was drafted
     * @param inFlight whether tokens were in flight when it was drafted
     * @param stays whether it holds the arm in its pipeline
     * @param shared whether it is what the arm makes beyond the target, as others do
     * @param sample the work that is measured; empty where the step is not measured
     * @param gain the predicted gain; present where an arm would offload and gpu-only is an arm
     */
    private record Drafted(
            StepDraft draft,
            boolean ofPause,
            int hostTokens,
            boolean inFlight,
            boolean stays,
            boolean shared,
            Optional<Sample> sample,
            Optional<PredictedGain> gain) {}

    private static final int GPU_ONLY = -1;

    /**
     * The work of a step that is measured.
     *
     * @param arm that made the step, or {@link #GPU_ONLY}
     * @param work of the step
     * @param secondsPerToken of gpu-only in the state of the step
     * @param promptsAdded seconds that prompts add to a step of gpu-only; 0 for other steps
     */
    private record Sample(int arm, Work work, double secondsPerToken, double promptsAdded) {}

    /**
     * The predicted gain of an arm's step over gpu-only.
     *
     * @param expectation of the gain
     * @param enough whether the expected gain suffices to begin offloading
     * @param begins whether offloading begins with the step
     * @param demand the numbers of requests when the step was drafted
     */
    private record PredictedGain(
            ExpectedGain.Expectation expectation, boolean enough, boolean begins, Measurement.Demand demand) {}

    /**
     * An arm's draft, whether it holds the arm in its pipeline, and whether it is what the arm makes beyond the target.
     */
    private record ArmDraft(StepDraft draft, boolean stays, boolean beyondTarget) {}

    /**
     * Creates a selector.
     *
     * @param arms that offload; the first one begins, and the policy of every arm is told of every completed step
     * @param baseline gpu-only, if offloading must do better than it
     * @param predictor for this executor, with the time of swaps
     * @param ranking of the arms
     * @param limits margins and durations
     * @param idealRatio throughput of the best schedule over gpu-only's, for log lines; NaN where it is not known
     */
    public StrategySelector(
            List<Arm> arms,
            Optional<Baseline> baseline,
            StepPredictor predictor,
            ArmRanking ranking,
            SelectorLimits limits,
            DoubleSupplier idealRatio) {
        this.arms = List.copyOf(arms);
        this.baseline = baseline;
        this.predictor = predictor;
        this.ranking = ranking;
        this.margin = limits.margin();
        this.gpuDemand = baseline.filter(base -> base.perTokenNanos() > 0).map(base -> new GpuDemand());
        this.queue = new QueueTrend(limits.window());
        this.hostNeeded = gpuDemand.isEmpty();
        this.selection = new ArmSelection(
                arms.stream().map(Arm::name).toList(), baseline.isPresent(), ranking, limits, idealRatio);
        long perTokenNanos = baseline.map(Baseline::perTokenNanos).orElse(0L);
        List<SpeedupEstimate> estimates = arms.stream()
                .flatMap(arm -> arm.kinds().stream())
                .distinct()
                .map(kind -> new SpeedupEstimate(predictor, kind, perTokenNanos))
                .toList();
        this.expectedGain = new ExpectedGain(estimates);
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        Drafted next = baseline.isPresent() ? guarded(baseline.get(), state, why) : unguarded(state, why);
        if (pending.size() == MAX_PENDING) {
            pending.removeFirst();
        }
        pending.addLast(next);
        return next.draft();
    }

    private static int hostTokens(SchedulerState state) {
        return state.host().size() + state.inFlight().size();
    }

    private Drafted unguarded(SchedulerState state, Decision why) {
        ArmDraft offload = armDraft(state, why);
        boolean counts = offload.draft().offloads() || triesToDoWithoutHost(state);
        return armStep(offload, counts ? sample(offload.draft(), offload.draft()) : Optional.empty(), Optional.empty());
    }

    private Drafted guarded(Baseline base, SchedulerState state, Decision why) {
        if (selection.phase() == Phase.DRAIN && hostTokens(state) > 0) {
            return gpuOnlyStep(base.drain().draft(state, why), false, false, Optional.empty());
        }
        if (selection.pausedFor() > 0) {
            StepDraft gpuOnly = base.policy().draft(state, new Decision());
            why.because("guard: offloading lost to gpu-only, so gpu-only for %d more steps", selection.pausedFor());
            return gpuOnlyStep(gpuOnly, true, isShortOfKv(state), Optional.empty());
        }
        if (base.gpuFirst() && state.waiting().isEmpty() && hostTokens(state) == 0) {
            StepDraft gpuOnly = base.policy().draft(state, why);
            if (gpuOnly.drops().isEmpty() && gpuOnly.outs().isEmpty()) {
                // the GPU has room for all requests
                return gpuOnlyStep(gpuOnly, false, false, Optional.empty());
            }
        }
        if (gpuDemand.isPresent() && !gpuDemand.get().needsHost()) {
            return withoutNeed(base, state, why);
        }
        ArmDraft offload = armDraft(state, why);
        boolean usesHost = offload.draft().offloads();
        boolean stays = hostTokens(state) > 0 || triesToDoWithoutHost(state);
        if (!usesHost && selection.isOffloading() && stays) {
            return armStep(offload, sample(offload.draft(), offload.draft()), Optional.empty());
        }
        StepDraft gpuOnly = base.policy().draft(state, new Decision());
        if (!usesHost) {
            why.because("guard: the strategy would not use the host in this step, so gpu-only");
            boolean counts = isShortOfKv(state) && selection.countsGpuOnly(Measurement.Demand.of(state));
            return gpuOnlyStep(gpuOnly, false, counts, Optional.empty());
        }
        if (gpuOnly.load(0).rows() == 0) {
            return armStep(offload, Optional.empty(), Optional.empty());
        }
        return decided(gpuOnly, offload, why);
    }

    /**
     * A step while the host is not needed. It does not measure gpu-only, which does less with a short queue. Requests
     * on the host are those that gpu-only has preempted.
     */
    private Drafted withoutNeed(Baseline base, SchedulerState state, Decision why) {
        StepDraft draft = base.policy().draft(state, new Decision());
        why.because(
                "guard: %d requests wait, and the host is used from %d on, from %d after %.1f s,"
                        + " or when a queue does not end, so gpu-only",
                state.waiting().size(),
                GpuDemand.MAX_WAITING + 1,
                GpuDemand.MAX_WAITING_LONG + 1,
                GpuDemand.MAX_WAIT_NANOS / 1e9);
        return gpuOnlyStep(draft, false, false, Optional.empty());
    }

    /** Whether an arm that is tried leaves the host empty though requests wait: without these steps no trial ends. */
    private boolean triesToDoWithoutHost(SchedulerState state) {
        return selection.isTrial() && hostTokens(state) == 0 && !state.waiting().isEmpty();
    }

    private static boolean isShortOfKv(SchedulerState state) {
        return !state.waiting().isEmpty() || !state.host().isEmpty();
    }

    /** Decides between gpu-only and an arm that would offload. Offloading begins once enough steps predict a gain. */
    private Drafted decided(StepDraft gpuOnly, ArmDraft offload, Decision why) {
        double secondsPerToken = predictor.secondsPerToken(gpuOnly.load(0));
        consider(offload.draft(), secondsPerToken, why);
        consider(gpuOnly, secondsPerToken, why);
        ExpectedGain.Expectation expectation = expectedGain.of(gpuOnly);
        Measurement.Demand demand = Measurement.Demand.of(gpuOnly.state());
        double minGain = margin + ERROR_WEIGHT * predictor.cost().error();
        boolean enough = expectation.gain() >= minGain;
        boolean lasts = expectation.gain() >= CLEAR_GAIN || queue.lasts(gpuOnly.state());
        boolean begins = enough && lasts && selection.begins(demand);
        Optional<PredictedGain> predicted = Optional.of(new PredictedGain(expectation, enough, begins, demand));
        if (selection.isOffloading() || begins) {
            return armStep(offload, sample(offload.draft(), gpuOnly), predicted);
        }
        String outcome = !enough
                ? ", so gpu-only"
                : lasts ? "; gpu-only is measured first" : "; the queue ends before that is measured, so gpu-only";
        why.because(
                "guard: offloading is predicted to gain %.1f %%, min %.1f %%" + outcome,
                expectation.gain() * 100,
                minGain * 100);
        return gpuOnlyStep(gpuOnly, false, selection.countsWanted(demand), predicted);
    }

    private Drafted armStep(ArmDraft step, Optional<Sample> sample, Optional<PredictedGain> gain) {
        SchedulerState state = step.draft().state();
        boolean inFlight = !state.inFlight().isEmpty();
        return new Drafted(
                step.draft(), false, hostTokens(state), inFlight, step.stays(), step.beyondTarget(), sample, gain);
    }

    private Drafted gpuOnlyStep(StepDraft draft, boolean ofPause, boolean counts, Optional<PredictedGain> gain) {
        SchedulerState state = draft.state();
        Optional<Sample> sample = counts
                ? Optional.of(new Sample(
                        GPU_ONLY,
                        ranking.work(draft),
                        predictor.secondsPerToken(draft.load(0)),
                        predictor.addedByPrompts(draft.load(0))))
                : Optional.empty();
        boolean inFlight = !state.inFlight().isEmpty();
        return new Drafted(draft, ofPause, hostTokens(state), inFlight, false, false, sample, gain);
    }

    /** @param gpuOnly the gpu-only draft, whose load gives the seconds per token */
    private Optional<Sample> sample(StepDraft draft, StepDraft gpuOnly) {
        double secondsPerToken = predictor.secondsPerToken(gpuOnly.load(0));
        return Optional.of(new Sample(selection.arm(), ranking.work(draft), secondsPerToken, 0));
    }

    private ArmDraft armDraft(SchedulerState state, Decision why) {
        boolean inFlight = !state.inFlight().isEmpty();
        if (inFlight && selection.leftArm().isPresent()) {
            Optional<Policy> leave = arms.get(selection.leftArm().getAsInt()).leave();
            if (leave.isPresent()) {
                return new ArmDraft(leave.get().draft(state, why), false, false);
            }
        }
        Arm arm = arms.get(selection.arm());
        if (arm.beyondTarget().isPresent()
                && !arm.beyondTarget().get().keepsTarget().test(state)) {
            StepDraft draft = arm.beyondTarget().get().policy().draft(state, why);
            why.because("in-flight tokens would wait longer than their target; %s", why.reason());
            return new ArmDraft(draft, false, true);
        }
        StepDraft draft = arm.policy().draft(state, why);
        boolean leavesPipeline = draft.shape() == Shape.ASYNC && !inFlight && pipelineStays < PIPELINE_STAYS;
        if (arm.instead().isEmpty() || !leavesPipeline) {
            return new ArmDraft(draft, false, false);
        }
        StepDraft pipelined = arm.instead().get().draft(state, why);
        why.because(
                "apex: the pipeline goes on for %d steps before async-overlap, of which this is number %d; %s",
                PIPELINE_STAYS, pipelineStays + 1, why.reason());
        return new ArmDraft(pipelined, true, false);
    }

    private void consider(StepDraft draft, double secondsPerToken, Decision why) {
        double seconds = predictor.of(draft);
        double normalisedWork = predictor.work(draft).normalisedWork(secondsPerToken);
        int cpuRows = draft.load(0).cpuRows()
                + draft.load(1).cpuRows()
                + draft.admissions().size();
        why.consider(new Candidate(draft.shape(), draft.totalRows(), cpuRows, seconds, normalisedWork));
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        arms.forEach(arm -> arm.policy().completed(draft, achieved));
        baseline.ifPresent(base -> base.drain().completed(draft, achieved));
        if (pending.stream().noneMatch(step -> step.draft() == draft)) {
            return; // another policy drafted it
        }
        Drafted step = pending.removeFirst();
        while (step.draft() != draft) { // steps complete in order, so earlier drafts were dropped
            step = pending.removeFirst();
        }
        advance(step, achieved);
        queue.completed(draft.state());
        gpuDemand.ifPresent(demand -> {
            demand.completed(draft.state());
            hostNeeded = demand.needsHost();
        });
    }

    private void advance(Drafted step, double achieved) {
        if (step.stays()) {
            pipelineStays++;
        } else if (step.draft().shape() == Shape.PIPELINE) {
            pipelineStays = 0;
        }
        if (!step.inFlight()) {
            selection.nothingInFlight();
        }
        if (step.ofPause()) {
            selection.paused();
        }
        if (step.hostTokens() == 0 && !step.draft().offloads()) {
            selection.hostIsEmpty();
        }
        step.gain().ifPresent(gain -> {
            expected = gain.expectation().gain();
            selection.wouldOffload(gain.enough(), gain.begins(), gain.demand());
        });
        if (achieved > 0) {
            step.sample().ifPresent(sample -> count(step, sample, achieved));
        }
    }

    private void count(Drafted step, Sample sample, double achieved) {
        ArmSelection.Measured measured =
                new ArmSelection.Measured(sample.work(), sample.secondsPerToken(), sample.promptsAdded(), achieved);
        if (sample.arm() == GPU_ONLY) {
            selection.countGpuOnly(measured);
            return;
        }
        boolean full = step.gain().map(gain -> !gain.expectation().fills()).orElse(false);
        selection.count(sample.arm(), measured, step.hostTokens(), full, step.shared());
    }

    /** The current phase. */
    public Phase phase() {
        return selection.phase();
    }

    /** Whether an arm is tried in place of the incumbent. */
    boolean isTrial() {
        return selection.isTrial();
    }

    /** Whether the phase is one in which an arm offloads, and the host is needed. */
    public boolean isOffloading() {
        return hostNeeded && selection.isOffloading();
    }

    /**
     * Gain of offloading over gpu-only that was predicted for the last step in which an arm would offload, as a
     * fraction. Empty before the first such step.
     */
    public OptionalDouble expectedGain() {
        double gain = expected;
        return Double.isNaN(gain) ? OptionalDouble.empty() : OptionalDouble.of(gain);
    }

    /**
     * Gain of offloading over gpu-only in the last window that was judged, as a fraction: 0.1 is 10 %. Empty while not
     * both are measured.
     */
    public OptionalDouble measuredGain() {
        double ratio = selection.measuredRatio();
        return Double.isNaN(ratio) ? OptionalDouble.empty() : OptionalDouble.of(ratio - 1);
    }

    /** Number of times that offloading has lost to gpu-only. */
    public int losses() {
        return selection.losses();
    }
}
