package dev.tandem.server;

import dev.tandem.text.Tokenizer;

/** The tokenizer of {@link ScriptedModel} for tests of other packages. */
public final class ScriptedVocabulary {
    private ScriptedVocabulary() {}

    /** One token per character. */
    public static Tokenizer tokenizer() {
        return new ScriptedModel(prompt -> "");
    }
}
