package dev.tandem.text;

import java.nio.charset.StandardCharsets;

/** Encodes a text that may end the process; run in a process of its own. */
public final class LongTextProbe {
    private LongTextProbe() {}

    /** @param args the pattern, what is repeated, how often ("max" for as long as allowed), and what follows */
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
