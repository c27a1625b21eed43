package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.strategy.SpeedupEstimate;
import java.util.Optional;
import java.util.Set;

/**
 * A choice of the selector that uses the host.
 *
 * @param name of the arm in logs
 * @param policy drafts the arm's steps
 * @param kinds of steps that the arm may make with a full host
 * @param instead drafts the step while the selector holds the arm in its pipeline, though the arm's policy would enter
 *     async overlap
 * @param leave drafts steps in which in-flight tokens go on and none is admitted, before another arm takes over
 */
public record Arm(
        String name, Policy policy, Set<SpeedupEstimate.Kind> kinds, Optional<Policy> instead, Optional<Policy> leave) {
    /** An arm that is left at once and never held in a pipeline. */
    public Arm(String name, Policy policy, Set<SpeedupEstimate.Kind> kinds) {
        this(name, policy, kinds, Optional.empty(), Optional.empty());
    }
}
