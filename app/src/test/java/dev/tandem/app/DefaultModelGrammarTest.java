package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.grammar.GrammarSource;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.ThreadLocalRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** llguidance knows the default model's vocabulary byte for byte, its special tokens and its end tokens. */
class DefaultModelGrammarTest {
    private static final List<String> TEXTS = List.of(
            "Hello,  world!\n\n\tIt's 12:34.",
            "größer 你好 🙂\u200d🚀 e\u0301",
            "{\"a\": [1.5e-3, null], \"ключ\": \"\\u00e9\"}",
            "before <|im_end|> after <|endoftext|>",
            "\u0001\u007f\r\n");

    private final ModelGrammar model = new ModelGrammar();

    @AfterEach
    void close() {
        model.close();
    }

    @Test
    void aTextWithoutAlternativesIsForcedInTheModelsOwnTokens() {
        int[] bitmask = model.bitmask();
        for (String text : TEXTS) {
            try (GrammarCompiler.Compiled grammar = model.compiler.compile(GrammarSource.choice(List.of(text)))) {
                GrammarMatcher matcher = grammar.matcher();
                int[] forced = matcher.acceptForced();
                if (!text.contains("<|")) { // the tokenizer would find special tokens in it
                    assertThat(forced).as(text).isEqualTo(model.tokenizer.encode(text, false));
                }
                assertThat(model.tokenizer.decode(forced, true)).isEqualTo(text);
                matcher.fillBitmask(bitmask);
                assertThat(model.ends).allMatch(end -> ModelGrammar.isAllowed(bitmask, end));
                matcher.close();
            }
        }
    }

    @Test
    void theModelsOwnTokensOfATextAreAllowed() {
        int[] bitmask = model.bitmask();
        GrammarSource anything = GrammarSource.regex("(.|\\n)*");
        for (String text : TEXTS) {
            try (GrammarCompiler.Compiled grammar = model.compiler.compile(anything)) {
                GrammarMatcher matcher = grammar.matcher();
                for (int token : plain(text)) {
                    matcher.fillBitmask(bitmask);
                    assertThat(ModelGrammar.isAllowed(bitmask, token))
                            .as("token %s of %s", model.tokenizer.vocabulary().token(token), text)
                            .isTrue();
                    matcher.accept(token);
                }
                matcher.close();
            }
        }
    }

    /** The tokens of a text; it is cut where a special token would begin, so that none is found in it. */
    private int[] plain(String text) {
        return Arrays.stream(text.split("(?<=<)"))
                .flatMapToInt(part -> Arrays.stream(model.tokenizer.encode(part, false)))
                .toArray();
    }

    @Test
    void anyAllowedTokensMakeExactlyTheText() {
        long seed = ThreadLocalRandom.current().nextLong();
        SplittableRandom random = new SplittableRandom(seed);
        for (String text : TEXTS) {
            for (int i = 0; i < 5; i++) {
                int[] tokens = model.random(GrammarSource.choice(List.of(text)), random, 200);
                assertThat(model.tokenizer.decode(tokens, false))
                        .as("seed %d, tokens %s", seed, tokens)
                        .isEqualTo(text);
            }
        }
    }
}
