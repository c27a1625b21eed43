package dev.tandem.text;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;

/**
 * Turns tokens into text one by one. Bytes of an incomplete character are held back; invalid bytes become U+FFFD.
 *
 * <p>Owned by: one sequence.
 */
public final class StreamingDetokenizer {
    private final Vocabulary vocabulary;
    private final BitSet skipped;
    private final CharsetDecoder decoder = StandardCharsets.UTF_8
            .newDecoder()
            .onMalformedInput(CodingErrorAction.REPLACE)
            .onUnmappableCharacter(CodingErrorAction.REPLACE);
    private byte[] held = new byte[0];

    /** @param skipSpecial whether special tokens are left out of the text */
    public StreamingDetokenizer(Vocabulary vocabulary, boolean skipSpecial) {
        this(vocabulary, skipSpecial ? vocabulary.special() : new BitSet());
    }

    /** @param skipped ids of tokens that are left out of the text; it must not change */
    public StreamingDetokenizer(Vocabulary vocabulary, BitSet skipped) {
        this.vocabulary = vocabulary;
        this.skipped = skipped;
    }

    /** The text that this token completes. */
    public String append(int token) {
        if (token >= 0 && skipped.get(token)) {
            return "";
        }
        return decode(vocabulary.bytes(token), false);
    }

    /** The text of the bytes that are still held back. */
    public String finish() {
        return decode(new byte[0], true);
    }

    private String decode(byte[] added, boolean end) {
        ByteBuffer in = ByteBuffer.allocate(held.length + added.length)
                .put(held)
                .put(added)
                .flip();
        CharBuffer out = CharBuffer.allocate(in.remaining() + 2);
        decoder.decode(in, out, end);
        if (end) {
            decoder.flush(out);
            decoder.reset();
        }
        held = new byte[in.remaining()];
        in.get(held);
        return out.flip().toString();
    }
}
