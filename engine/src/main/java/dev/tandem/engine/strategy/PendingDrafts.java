package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.StepDraft;
import java.util.ArrayDeque;
import java.util.Optional;

/**
 * What a policy notes of its latest drafts until their steps have completed. A draft of which no step is made leaves
 * nothing behind: its note is dropped by those that follow.
 *
 * <p>Owned by: engine thread.
 *
 * @param <T> the note
 */
final class PendingDrafts<T> {
    /**
     * Two steps may be under way; the others are drafts of which no step was made, of those at most one between two
     * steps.
     */
    private static final int MAX = 8;

    private final ArrayDeque<Pending<T>> pending = new ArrayDeque<>(MAX);

    private record Pending<T>(StepDraft draft, T note) {}

    void add(StepDraft draft, T note) {
        if (pending.size() == MAX) {
            pending.removeFirst();
        }
        pending.addLast(new Pending<>(draft, note));
    }

    /**
     * The draft's note; empty when the policy did not make the draft. Earlier drafts are forgotten: steps complete in
     * their order.
     */
    Optional<T> completed(StepDraft draft) {
        if (pending.stream().noneMatch(candidate -> candidate.draft() == draft)) {
            return Optional.empty();
        }
        Pending<T> oldest = pending.removeFirst();
        while (oldest.draft() != draft) {
            oldest = pending.removeFirst();
        }
        return Optional.of(oldest.note());
    }

    int size() {
        return pending.size();
    }
}
