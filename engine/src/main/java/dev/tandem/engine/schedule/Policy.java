package dev.tandem.engine.schedule;

/** Decides one step; the state is read and not changed. */
public interface Policy {
    /** @param why told what was considered and why this was chosen */
    StepDraft draft(SchedulerState state, Decision why);

    /** Told how a step made of one of its drafts went; {@code predicted} is of the whole step, 0 when unknown. */
    default void completed(StepDraft draft, double predicted, double achieved) {}
}
