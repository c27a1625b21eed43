package dev.tandem.engine.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.kv.AttentionSpan;
import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvWindow;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.request.Sequence;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

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

    /**
     * Of 50 blocks. A sequence of 20 tokens, 100 at its end, is expected to have 77, in 20 blocks; one that waits, with
     * the same limit or another, 78, 123 or 130, in 20, 31 or 33. The last would take one of the 18 alone, and must
     * leave them free only now, beside the 5 blocks that the first holds and the 5 that it takes.
     */
    @ParameterizedTest
    @CsvSource({"10, 100, true", "11, 100, false", "18, 170, false", "18, 180, true", "41, 180, false"})
    void blocksThatAreKeptFreeStayFreeAsAllGrow(int keptFree, int limit, boolean room) {
        Scene young = new Scene(50, 50, BUDGET).limit(100);
        young.gpu(20);
        StepDraft draft = new StepDraft(young.state, BUDGET);
        draft.keepGpuBlocksFree(keptFree, sequence -> true);
        assertThat(draft.gpuHasRoomFor(young.limit(limit).waiting(20), 0)).isEqualTo(room);
    }

    @Test
    void aSequenceThatMovesNeedsRoomForItsWindowOnly() {
        KvWindow window = new KvWindow(8, 4, 128);
        AttentionSpan span = new AttentionSpan(List.of(window.tokens()));
        Scene sliding = new Scene(
                new KvCache(4, 4, 12, 50, PrefillStaging.NONE, PrefixCacheOptions.OFF, 0, KvLayout.of(window), span),
                BUDGET);
        sliding.gpu(20);
        Sequence host = sliding.host(100);
        sliding.state.live().forEach(sliding.committer::slide);
        assertThat(sliding.kv.pool(KvTier.GPU).free())
                .as("blocks for half of the host sequence's tokens")
                .isLessThan(13);
        assertThat(new StepDraft(sliding.state, BUDGET).roomToGrow(KvTier.GPU, host))
                .isTrue();
    }
}
