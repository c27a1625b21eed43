package dev.tandem.app;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.grammar.GrammarSource;
import dev.tandem.grammar.Llguidance;
import dev.tandem.grammar.LlguidanceCompiler;
import dev.tandem.model.Checkpoint;
import dev.tandem.text.Tokenizer;
import java.util.Arrays;
import java.util.Set;
import java.util.SplittableRandom;
import picocli.CommandLine;

/** Grammars over the vocabulary of a model. Skips the test where the build has no llguidance. */
final class ModelGrammar implements AutoCloseable {
    final Tokenizer tokenizer;
    final Set<Integer> ends;
    final LlguidanceCompiler compiler;

    /** @param model a model's name; without one it is the default model */
    ModelGrammar(String... model) {
        assumeTrue(Llguidance.find().isPresent(), Llguidance.reason());
        ModelOptions options = new ModelOptions();
        new CommandLine(options).setCaseInsensitiveEnumValuesAllowed(true).parseArgs(model);
        try (Checkpoint checkpoint = EngineAssembly.open(options)) {
            tokenizer = EngineAssembly.tokenizer(checkpoint, true).orElseThrow();
            ends = checkpoint.config().endTokens();
        }
        compiler = new LlguidanceCompiler(Llguidance.find().orElseThrow(), tokenizer, ends, 0);
    }

    int[] bitmask() {
        return new int[GrammarMatcher.words(tokenizer.vocabulary().size())];
    }

    static boolean isAllowed(int[] bitmask, int token) {
        return (bitmask[token / 32] >>> token & 1) == 1;
    }

    /** Tokens drawn from the bitmasks alone until an end token, or {@code max}. */
    int[] random(GrammarSource source, SplittableRandom random, int max) {
        int[] bitmask = bitmask();
        int[] tokens = new int[max];
        try (GrammarCompiler.Compiled grammar = compiler.compile(source)) {
            GrammarMatcher matcher = grammar.matcher();
            try {
                for (int i = 0; i < max; i++) {
                    matcher.fillBitmask(bitmask);
                    tokens[i] = random.ints(0, tokenizer.vocabulary().size())
                            .filter(token -> isAllowed(bitmask, token))
                            .findFirst()
                            .orElseThrow();
                    matcher.accept(tokens[i]);
                    if (ends.contains(tokens[i])) {
                        return Arrays.copyOf(tokens, i);
                    }
                }
                return tokens;
            } finally {
                matcher.close();
            }
        }
    }

    @Override
    public void close() {
        compiler.close();
        tokenizer.close();
    }
}
