package dev.tandem.text.fuzz;

import dev.tandem.text.HuggingFaceTokenizer;
import dev.tandem.text.Tokenizer;
import dev.tandem.text.TokenizerException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Fuzz target: a {@code tokenizer.json}, a zero byte, and a text. Encoding returns tokens that can be decoded or throws
 * a TokenizerException. The process survives, although native code reads the file and the text.
 */
public final class TokenizerFuzz {
    private static final Path FOLDER = folder();

    private TokenizerFuzz() {}

    private static Path folder() {
        try {
            return Files.createTempDirectory(Files.createDirectories(Path.of("target/fuzz-files")), "input");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public static void fuzzerTestOneInput(byte[] data) throws IOException {
        int end = 0;
        while (end < data.length && data[end] != 0) {
            end++;
        }
        Files.write(FOLDER.resolve("tokenizer.json"), Arrays.copyOf(data, end));
        String text = new String(
                data, Math.min(data.length, end + 1), Math.max(0, data.length - end - 1), StandardCharsets.UTF_8);
        try (Tokenizer tokenizer = HuggingFaceTokenizer.open(FOLDER)) {
            int[] tokens = tokenizer.encode(text, true);
            tokenizer.decode(tokens, false);
            for (int token : tokens) {
                if (token < 0) {
                    throw new AssertionError("token id " + token);
                }
                tokenizer.vocabulary().bytes(token);
            }
        } catch (TokenizerException e) {
            if (e.getMessage() == null || e.getMessage().isBlank()) {
                throw new AssertionError("an error without a message", e);
            }
        }
    }
}
