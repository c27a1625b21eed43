package dev.tandem.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

class TokenMaskTest {
    private static final int VOCABULARY = 70;

    private static TokenMask allowing(int... tokens) {
        BitSet bits = new BitSet();
        for (int token : tokens) {
            bits.set(token);
        }
        return new TokenMask(Optional.of(bits), List.of());
    }

    private static TokenMask banning(int[]... sequences) {
        return new TokenMask(Optional.empty(), List.of(sequences));
    }

    private static BitSet allowed(GrammarMatcher matcher) {
        int[] words = new int[GrammarMatcher.words(VOCABULARY)];
        matcher.fillBitmask(words);
        BitSet bits = new BitSet();
        for (int token = 0; token < VOCABULARY; token++) {
            bits.set(token, (words[token / 32] >>> token & 1) == 1);
            assertThat(matcher.allows(token)).as("token %d", token).isEqualTo(bits.get(token));
        }
        return bits;
    }

    private static BitSet allBut(int... tokens) {
        BitSet bits = new BitSet();
        bits.set(0, VOCABULARY);
        for (int token : tokens) {
            bits.clear(token);
        }
        return bits;
    }

    @Test
    void onlyAllowedTokensMayCome() {
        GrammarMatcher matcher = allowing(3, 33, 69).matcher();
        BitSet expected = new BitSet();
        expected.set(3);
        expected.set(33);
        expected.set(69);
        assertThat(allowed(matcher)).isEqualTo(expected);
        matcher.accept(33);
        assertThat(allowed(matcher)).isEqualTo(expected);
    }

    @Test
    void theLastTokenOfABannedSequenceMayNotFollowTheOthers() {
        GrammarMatcher matcher =
                banning(new int[] {7}, new int[] {1, 2, 40}, new int[] {2, 41}).matcher();
        assertThat(allowed(matcher)).isEqualTo(allBut(7));
        matcher.accept(2);
        assertThat(allowed(matcher)).isEqualTo(allBut(7, 41));
        matcher.accept(1);
        assertThat(allowed(matcher)).isEqualTo(allBut(7));
        matcher.accept(2);
        assertThat(allowed(matcher)).isEqualTo(allBut(7, 40, 41));
        matcher.close();
        assertThat(allowed(matcher)).as("once closed").isEqualTo(allBut());
    }

    @Test
    void aGrammarGoesOnUnderTheMask() {
        RandomGrammar grammar = new RandomGrammar(5, VOCABULARY);
        GrammarMatcher alone = grammar.matcher();
        GrammarMatcher both = banning(new int[] {4}).over(grammar).matcher();
        for (int i = 0; i < 20; i++) {
            BitSet expected = allowed(alone);
            int next = expected.stream().filter(token -> token != 4).findFirst().orElseThrow();
            expected.clear(4);
            assertThat(allowed(both)).as("token %d", i).isEqualTo(expected);
            alone.accept(next);
            both.accept(next);
        }
    }

    @Test
    void theSamplerChoosesAmongWhatIsLeft() {
        SamplingParams params =
                SamplingParams.builder().temperature(0).minTokens(2).build().withGrammar(allowing(5, 6));
        TokenSampler sampler = new TokenSampler(params, new int[] {1}, Set.of(5), 1);
        float[] logits = new float[VOCABULARY];
        logits[9] = 3;
        logits[5] = 2;
        SamplingScratch scratch = new SamplingScratch();
        assertThat(sampler.choose(logits.clone(), 0, VOCABULARY, scratch).token())
                .as("the end must wait")
                .isEqualTo(6);
        sampler.choose(logits.clone(), 0, VOCABULARY, scratch);
        assertThat(sampler.choose(logits.clone(), 0, VOCABULARY, scratch).token())
                .isEqualTo(5);
        assertThatThrownBy(() -> params.withGrammar(allowing(5).over(new RandomGrammar(1, VOCABULARY))))
                .as("a grammar decides where the output ends, under a mask too")
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("min_tokens");
    }
}
