package dev.tandem.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Attention of a model of six layers, of which four have a window of 10 tokens and one has 50. */
class AttentionSpanTest {
    private static final AttentionSpan SPAN = new AttentionSpan(List.of(10, 10, 0, 10, 10, 50));

    @Test
    void aTokenAttendsToWhatItsLayersSee() {
        assertThat(SPAN.tokens(9)).isEqualTo(9);
        assertThat(SPAN.tokens(60)).isEqualTo((4 * 10 + 50 + 60) / 6);
        assertThat(SPAN.maxTokens()).isEqualTo(Integer.MAX_VALUE);
        assertThat(new AttentionSpan(List.of(10, 50)).maxTokens()).isEqualTo(30);
    }

    @Test
    void pairsAreThoseOfEachRow() {
        long pairs = IntStream.rangeClosed(6, 66)
                .mapToLong(length -> 4L * Math.min(10, length) + Math.min(50, length) + length)
                .sum();
        assertThat(SPAN.pairs(5, 61)).isEqualTo(pairs / 6);
    }

    @Test
    void meansAreOverAllLengths() {
        for (int[] range : new int[][] {{2, 8}, {2, 30}, {20, 40}, {20, 90}, {60, 90}}) {
            double[] lengths = IntStream.range(0, 1000)
                    .mapToDouble(i -> range[0] + (i + 0.5) / 1000 * (range[1] - range[0]))
                    .toArray();
            double sum = 0;
            for (double length : lengths) {
                sum += 4 * Math.min(10, length) + Math.min(50, length) + length;
            }
            assertThat(SPAN.meanTokens(range[0], range[1]))
                    .as("%d to %d", range[0], range[1])
                    .isCloseTo(sum / 6000, within(1e-3));
        }
        assertThat(SPAN.meanTokens(60, 60)).isEqualTo((4 * 10 + 50 + 60) / 6.0);
        assertThat(AttentionSpan.WHOLE.meanTokens(20, 90)).isEqualTo(55);
    }
}
