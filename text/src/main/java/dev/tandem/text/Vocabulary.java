package dev.tandem.text;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;

/**
 * The text that each token id stands for.
 *
 * @param tokens by id, as the tokenizer's file spells them; null where an id is unused
 * @param special ids of tokens that mark structure, not text
 * @param literal ids whose spelling is their text: tokens added to the model's vocabulary
 */
public record Vocabulary(String[] tokens, BitSet special, BitSet literal, Spelling spelling) {

    /** How a token's spelling encodes its bytes. */
    public enum Spelling {
        /** One character per byte, by GPT-2's table. */
        BYTE_LEVEL,
        /** Text with ▁ for spaces and {@code <0xNN>} for single bytes. */
        SENTENCE_PIECE
    }

    private static final Map<Character, Byte> BYTE_OF_CHARACTER = byteTable();

    /** Printable bytes stand for themselves; the others have the characters from 256 on, in order. */
    private static Map<Character, Byte> byteTable() {
        Map<Character, Byte> table = new HashMap<>();
        int next = 256;
        for (int b = 0; b < 256; b++) {
            boolean printable = b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE;
            table.put((char) (printable ? b : next++), (byte) b);
        }
        return table;
    }

    public int size() {
        return tokens.length;
    }

    public boolean isSpecial(int id) {
        return special.get(id);
    }

    /** The token's spelling, or a placeholder for an unused id. */
    public String token(int id) {
        return id >= 0 && id < tokens.length && tokens[id] != null ? tokens[id] : "<unused " + id + ">";
    }

    /** The bytes that a token adds to the text; they may end within a character. */
    public byte[] bytes(int id) {
        if (id < 0 || id >= tokens.length || tokens[id] == null) {
            return new byte[0];
        }
        String token = tokens[id];
        if (literal.get(id)) {
            return token.getBytes(StandardCharsets.UTF_8);
        }
        return switch (spelling) {
            case BYTE_LEVEL -> byteLevel(token);
            case SENTENCE_PIECE -> sentencePiece(token);
        };
    }

    private static byte[] byteLevel(String token) {
        byte[] bytes = new byte[token.length()];
        for (int i = 0; i < bytes.length; i++) {
            Byte b = BYTE_OF_CHARACTER.get(token.charAt(i));
            if (b == null) {
                return token.getBytes(StandardCharsets.UTF_8);
            }
            bytes[i] = b;
        }
        return bytes;
    }

    private static byte[] sentencePiece(String token) {
        if (token.length() == 6 && token.startsWith("<0x") && token.endsWith(">")) {
            int high = Character.digit(token.charAt(3), 16);
            int low = Character.digit(token.charAt(4), 16);
            if (high >= 0 && low >= 0) {
                return new byte[] {(byte) (high << 4 | low)};
            }
        }
        return token.replace('▁', ' ').getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Vocabulary v && Arrays.equals(tokens, v.tokens) && special.equals(v.special);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(tokens);
    }

    @Override
    public String toString() {
        return "vocabulary of " + tokens.length + " tokens";
    }
}
