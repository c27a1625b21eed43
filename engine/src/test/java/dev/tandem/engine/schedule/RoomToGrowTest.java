package dev.tandem.engine.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Pools of 200 tokens, each with a sequence of 20 that goes on for 99: outputs have 100 tokens. */
class RoomToGrowTest {
    private static final Budget BUDGET = new Budget(400, 20, 400);
    private static final int OUTPUT = 100;

    private final Scene scene = new Scene(50, 50, BUDGET);

    @BeforeEach
    void outputsHave100Tokens() {
        for (int i = 0; i < 16; i++) {
            Sequence sequence = scene.gpu(2);
            for (int token = 1; token < OUTPUT; token++) {
                sequence.append(0, 0);
            }
            scene.committer.remove(sequence);
        }
        scene.gpu(20);
        scene.host(20);
    }

    private boolean hasRoom(KvTier tier, int prompt) {
        return new StepDraft(scene.state, BUDGET).roomToGrow(tier, scene.waiting(prompt));
    }

    @Test
    void theGpuHasRoomForTwoStepsPerTokenOfAPrompt() {
        // both have 20 + 2 x 20 tokens by then, and at their ends they would have 239
        assertThat(hasRoom(KvTier.GPU, 20)).isTrue();
        // 20 + 2 x 45 and 45 + 2 x 45 are 245
        assertThat(hasRoom(KvTier.GPU, 45)).isFalse();
    }

    @Test
    void theHostHasRoomUntilAllHaveEnded() {
        assertThat(hasRoom(KvTier.HOST, 20)).isFalse();
    }

    @Test
    void everySequenceHasRoomWhereNoneIs() {
        Scene empty = new Scene(50, 50, BUDGET);
        assertThat(new StepDraft(empty.state, BUDGET).roomToGrow(KvTier.GPU, empty.waiting(190)))
                .isTrue();
    }
}
