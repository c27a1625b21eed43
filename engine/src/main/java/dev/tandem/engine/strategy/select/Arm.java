package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.strategy.SpeedupEstimate;
import java.util.Optional;
import java.util.Set;

/**
 * A way to make steps that use the host, with the name that logs give it.
 *
 * @param policy drafts the arm's steps
 * @param kinds what the steps of a full host may look like
 * @param instead drafts the step in place of one with which the arm would enter async overlap, while the arm is to stay
 *     in its pipeline
 * @param leave drafts steps in which the in-flight tokens go on and none enters, when another arm takes over
 */
public record Arm(
        String name, Policy policy, Set<SpeedupEstimate.Kind> kinds, Optional<Policy> instead, Optional<Policy> leave) {
    /** An arm that is left at once and stays in no pipeline. */
    public Arm(String name, Policy policy, Set<SpeedupEstimate.Kind> kinds) {
        this(name, policy, kinds, Optional.empty(), Optional.empty());
    }
}
