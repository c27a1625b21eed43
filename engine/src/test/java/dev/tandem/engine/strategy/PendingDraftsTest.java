package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import org.junit.jupiter.api.Test;

class PendingDraftsTest {
    private static final Budget BUDGET = new Budget(10, 10, 10);

    private final Scene scene = new Scene(1, 1, BUDGET);
    private final PendingDrafts<String> drafts = new PendingDrafts<>();

    private StepDraft draft(String note) {
        StepDraft draft = new StepDraft(scene.state, BUDGET);
        drafts.add(draft, note);
        return draft;
    }

    @Test
    void aStepThatCompletesHasItsNoteOnce() {
        StepDraft first = draft("first");
        draft("dropped");
        StepDraft second = draft("second");
        assertThat(drafts.completed(first)).contains("first");
        assertThat(drafts.completed(second)).contains("second");
        assertThat(drafts.completed(second)).isEmpty();
    }

    @Test
    void stepsOfOthersLeaveTheNotesAlone() {
        StepDraft mine = draft("mine");
        assertThat(drafts.completed(new StepDraft(scene.state, BUDGET))).isEmpty();
        assertThat(drafts.completed(mine)).contains("mine");
    }

    @Test
    void draftsOfWhichNoStepIsMadeDoNotPileUp() {
        StepDraft underWay = draft("under way");
        draft("dropped");
        assertThat(drafts.completed(underWay)).contains("under way");
        for (int i = 0; i < 10_000; i++) {
            draft("dropped");
        }
        assertThat(drafts.size()).isLessThan(10);
        assertThat(drafts.completed(draft("last"))).contains("last");
        assertThat(drafts.size()).isZero();
    }
}
