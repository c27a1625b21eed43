package dev.tandem.engine.schedule;

/** Decides one step. It reads the state and does not change it. */
public interface Policy {
    /**
     * Drafts the next step.
     *
     * @param why receives the candidates and the reason of the choice
     */
    StepDraft draft(SchedulerState state, Decision why);

    /**
     * Reports that the step made of one of its drafts took {@code achieved} seconds. Another step may have been drafted
     * meanwhile.
     */
    default void completed(StepDraft draft, double achieved) {}

    /** Reports that the host can no longer compute attention, and why. */
    default void hostLost(String why) {}
}
