package dev.tandem.engine.schedule;

/** Decides one step; the state is read and not changed. */
public interface Policy {
    /** @param why told what was considered and why this was chosen */
    StepDraft draft(SchedulerState state, Decision why);

    /**
     * Told how many seconds the step took that was made of one of its drafts; by then another may have been drafted.
     */
    default void completed(StepDraft draft, double achieved) {}

    /** Told that the host cannot compute attention any more. */
    default void hostLost(String why) {}
}
