package dev.tandem.text;

import java.nio.charset.StandardCharsets;

/** Encodes a text that may end the process; the test runs it in its own process. */
public final class LongTextProbe {
    private LongTextProbe() {}

    /** @param args the pattern, the text to repeat, the number of times ("max" for the limit), and the text after it */
    public static void main(String[] args) {
        byte[] json = TokenizerFiles.splitting(args[0]).getBytes(StandardCharsets.UTF_8);
        TokenizerFile file = TokenizerFile.of(json, "probe");
        int count = args[2].equals("max") ? file.limits().maxAscii() - args[3].length() : Integer.parseInt(args[2]);
        try (Tokenizer tokenizer = HuggingFaceTokenizer.of(file)) {
            System.out.println(tokenizer.encode(args[1].repeat(count) + args[3], false).length + " tokens");
        } catch (TokenizerException e) {
            System.out.println("refused: " + e.getMessage());
        }
    }
}
