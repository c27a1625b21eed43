package dev.tandem.engine.schedule;

import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.function.ToDoubleFunction;

/**
 * Turns a policy's drafts into plans, writes the decision log, and reports each step's time to the policy and to the
 * calibration of the cost model.
 *
 * <p>Owned by: engine thread.
 */
public final class PolicyScheduler implements Scheduler {
    /** Learns from the times of steps. */
    @FunctionalInterface
    public interface Calibration {
        /** Observes one step: its sizes are in the draft, its components' times in the result. */
        void observe(StepDraft draft, StepResult result, double predicted, double seconds);
    }

    private final Policy policy;
    private final ToDoubleFunction<StepDraft> predictor;
    private final Calibration calibration;
    private final DecisionLog log;
    private final CopyRule copies;
    /** Steps that have no result yet. */
    private final Queue<Planned> planned = new ArrayDeque<>();

    /** @param whole whether the plan computes all that the draft has; rows whose bitmask is late are left out */
    private record Planned(StepDraft draft, Decision decision, boolean whole) {}

    /**
     * Creates a scheduler.
     *
     * @param predictor seconds of a draft; 0 without a cost model
     */
    public PolicyScheduler(
            Policy policy, ToDoubleFunction<StepDraft> predictor, Calibration calibration, DecisionLog log) {
        this(policy, predictor, calibration, log, CopyRule.ALWAYS);
    }

    /**
     * Creates a scheduler.
     *
     * @param predictor seconds of a draft; 0 without a cost model
     * @param copies whether cached prefixes are copied between the tiers
     */
    public PolicyScheduler(
            Policy policy,
            ToDoubleFunction<StepDraft> predictor,
            Calibration calibration,
            DecisionLog log,
            CopyRule copies) {
        this.copies = copies;
        this.policy = policy;
        this.predictor = predictor;
        this.calibration = calibration;
        this.log = log;
    }

    /** A scheduler without a cost model. */
    public static PolicyScheduler of(Policy policy) {
        return new PolicyScheduler(policy, draft -> 0, (draft, result, predicted, seconds) -> {}, new DecisionLog(1));
    }

    @Override
    public CopyRule copies() {
        return copies;
    }

    @Override
    public StepPlan plan(SchedulerState state, PlanCommitter committer) {
        Decision decision = new Decision();
        StepDraft draft = policy.draft(state, decision);
        decision.note(draft.note());
        double predicted = draft.isEmpty() && state.inFlight().isEmpty() ? 0 : predictor.applyAsDouble(draft);
        KvMoveEvent.record(draft, decision);
        StepPlan plan = committer.commit(draft);
        decision.planned(
                plan.step(),
                draft.shape(),
                predicted,
                state.inFlight().size(),
                plan.resume().size());
        if (!plan.isEmpty()) {
            planned.add(new Planned(
                    draft,
                    decision,
                    plan.rows() == draft.load(0).rows() + draft.load(1).rows()));
        }
        return plan;
    }

    @Override
    public Decision completed(StepResult result, long nanos) {
        double seconds = nanos / 1e9;
        Planned step = planned.remove();
        step.decision().achieved(seconds, result.times().hostWait() / 1e9);
        log.add(step.decision());
        if (step.whole()) {
            calibration.observe(step.draft(), result, step.decision().predicted(), seconds);
        }
        policy.completed(step.draft(), step.whole() ? seconds : 0);
        result.lost().stream()
                .filter(lost -> lost.cause() == StepResult.Cause.HOST_ATTENTION)
                .findFirst()
                .ifPresent(lost -> policy.hostLost(lost.message()));
        return step.decision();
    }
}
