package dev.tandem.text;

import ai.djl.huggingface.tokenizers.jni.TokenizersLibrary;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * A tokenizer of Hugging Face's native library, loaded from a {@code tokenizer.json}. A failure in the library ends the
 * process. Files are therefore checked before they are loaded, and texts before they are encoded.
 *
 * <p>Owned by: thread-safe.
 */
public final class HuggingFaceTokenizer implements Tokenizer {
    static {
        // otherwise the library looks for GPU builds to download and sends usage data
        System.setProperty("ai.djl.offline", "true");
    }

    private final ai.djl.huggingface.tokenizers.HuggingFaceTokenizer delegate;
    private final Vocabulary vocabulary;
    private final TokenizerLimits limits;

    private HuggingFaceTokenizer(byte[] json, Vocabulary vocabulary, TokenizerLimits limits, String origin) {
        this.vocabulary = vocabulary;
        this.limits = limits;
        try {
            this.delegate = ai.djl.huggingface.tokenizers.HuggingFaceTokenizer.newInstance(
                    new ByteArrayInputStream(json), Map.of("truncation", "false", "padding", "false"));
        } catch (IOException | RuntimeException e) {
            throw new TokenizerException(
                    origin + " is not a tokenizer that the library can load: " + e.getMessage(), e);
        }
    }

    /** Opens {@code tokenizer.json} in a model's directory. */
    public static HuggingFaceTokenizer open(Path directory) {
        Path file = directory.resolve("tokenizer.json");
        if (!Files.exists(file)) {
            throw new TokenizerException(
                    directory + " has no tokenizer.json; the model's text cannot be tokenized without it");
        }
        try {
            return of(TokenizerFile.read(file));
        } catch (IOException e) {
            throw new TokenizerException(file + " cannot be read: " + e.getMessage(), e);
        }
    }

    /** Loads a file that was read and checked. */
    static HuggingFaceTokenizer of(TokenizerFile file) {
        return new HuggingFaceTokenizer(file.json(), file.vocabulary(), file.limits(), file.origin());
    }

    @Override
    public int[] encode(String text, boolean addSpecial) {
        limits.check(text);
        try {
            long[] ids = ids(text, addSpecial);
            int[] tokens = new int[ids.length];
            for (int i = 0; i < ids.length; i++) {
                tokens[i] = Math.toIntExact(ids[i]);
            }
            return tokens;
        } catch (RuntimeException e) { // the library has no exception type of its own
            throw new TokenizerException("the tokenizer cannot encode the text: " + e.getMessage(), e);
        }
    }

    /** The ids alone: the delegate's own method also makes a string and two more objects of each token. */
    private long[] ids(String text, boolean addSpecial) {
        long encoding = TokenizersLibrary.LIB.encode(delegate.getHandle(), text, addSpecial);
        try {
            return TokenizersLibrary.LIB.getTokenIds(encoding);
        } finally {
            TokenizersLibrary.LIB.deleteEncoding(encoding);
        }
    }

    @Override
    public Vocabulary vocabulary() {
        return vocabulary;
    }

    @Override
    public void close() {
        delegate.close();
    }
}
