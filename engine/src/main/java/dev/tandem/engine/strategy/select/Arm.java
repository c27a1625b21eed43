package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.strategy.SpeedupEstimate;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;

/**
 * A choice of the selector that uses the host.
 *
 * @param name of the arm in logs
 * @param policy drafts the arm's steps
 * @param kinds of steps that the arm may make with a full host
 * @param instead drafts the step while the selector holds the arm in its pipeline, though the arm's policy would enter
 *     async overlap
 * @param leave drafts steps in which in-flight tokens go on and none is admitted, before another arm takes over
 * @param beyondTarget drafts the steps while in-flight tokens would wait longer than their target
 */
public record Arm(
        String name,
        Policy policy,
        Set<SpeedupEstimate.Kind> kinds,
        Optional<Policy> instead,
        Optional<Policy> leave,
        Optional<BeyondTarget> beyondTarget) {
    /** An arm that is left at once, never held in a pipeline, and the same whatever the target is. */
    public Arm(String name, Policy policy, Set<SpeedupEstimate.Kind> kinds) {
        this(name, policy, kinds, Optional.empty(), Optional.empty(), Optional.empty());
    }

    /**
     * What an arm of async overlap does where its tokens would wait longer than their target.
     *
     * @param keepsTarget whether in-flight tokens keep the target
     * @param policy drafts the steps; in-flight tokens go on in them and none is admitted
     */
    public record BeyondTarget(Predicate<SchedulerState> keepsTarget, Policy policy) {}
}
