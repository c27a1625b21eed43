package dev.tandem.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class KvWindowTest {
    @Test
    void whatTheNextTokenAttendsToIsHeld() {
        SplittableRandom random = new SplittableRandom(51);
        for (int i = 0; i < 10_000; i++) {
            KvWindow window = new KvWindow(1 + random.nextInt(40), 4 * (1 + random.nextInt(4)), 1 + random.nextInt(30));
            int computed = random.nextInt(200);
            int length = computed + 1 + random.nextInt(100);
            int visible = Math.max(0, computed - window.tokens() + 1);
            assertThat(window.start(computed))
                    .as("%s, %d computed", window, computed)
                    .isLessThanOrEqualTo(visible)
                    .isGreaterThan(visible - window.unit());
            int chunk = Math.min(length - computed, window.maxChunk());
            assertThat(window.end(computed, length))
                    .as("%s, %d of %d computed", window, computed, length)
                    .isBetween(computed + chunk, length);
            assertThat(window.end(computed, length) - window.start(computed)).isLessThanOrEqualTo(window.maxHeld());
            assertThat(computed + 1 - window.start(computed)).isLessThanOrEqualTo(window.maxDecoding());
        }
    }

    @Test
    void withoutAWindowEverythingIsHeld() {
        assertThat(KvWindow.NONE.start(1_000_000)).isZero();
        assertThat(KvWindow.NONE.end(1_000_000, Integer.MAX_VALUE)).isEqualTo(Integer.MAX_VALUE);
    }

    @Test
    void unitsThatCutBlocksAreRefused() {
        assertThatThrownBy(() -> new KvCache(
                        16,
                        64,
                        8,
                        8,
                        PrefillStaging.NONE,
                        PrefixCacheOptions.OFF,
                        0,
                        KvLayout.of(new KvWindow(100, 16, 32)),
                        AttentionSpan.WHOLE))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("freed 16 tokens at a time")
                .hasMessageContaining("64 tokens of host blocks");
    }

    @Test
    void theSpanIsAMeanOverTheLayers() {
        List<Integer> windows = List.of(10, 0, 10, 30);
        AttentionSpan span = new AttentionSpan(windows);
        for (int length = 1; length < 80; length++) {
            int tokens = length;
            long sum = windows.stream()
                    .mapToLong(window -> window == 0 ? tokens : Math.min(window, tokens))
                    .sum();
            assertThat(span.tokens(length)).isEqualTo((int) (sum / 4));
        }
        assertThat(span.isWhole()).isFalse();
        assertThat(span.maxTokens()).isEqualTo(Integer.MAX_VALUE);
        assertThat(new AttentionSpan(List.of(10, 30)).maxTokens()).isEqualTo(20);
        assertThat(AttentionSpan.WHOLE.tokens(77)).isEqualTo(77);
    }

    @Test
    void pairsAreTheSumOfWhatEachTokenAttendsTo() {
        SplittableRandom random = new SplittableRandom(52);
        for (int i = 0; i < 1000; i++) {
            int window = 1 + random.nextInt(30);
            int start = random.nextInt(60);
            int rows = 1 + random.nextInt(60);
            long expected = 0;
            for (int row = 0; row < rows; row++) {
                expected += Math.min(window, start + row + 1);
            }
            assertThat(new AttentionSpan(List.of(window)).pairs(start, rows))
                    .as("%d rows from %d, window %d", rows, start, window)
                    .isEqualTo(expected);
        }
        assertThat(AttentionSpan.WHOLE.pairs(3, 2)).isEqualTo(4 + 5);
    }
}
