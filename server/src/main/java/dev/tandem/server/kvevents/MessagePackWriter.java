package dev.tandem.server.kvevents;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Writes values in MessagePack, each in its shortest form.
 *
 * <p>An array or a map is announced by its size, and its elements are written after that.
 *
 * <p>Owned by: one thread.
 */
final class MessagePackWriter {
    private static final int FIXED_INT = 0x80;
    private static final int FIXED_STRING = 32;
    private static final int FIXED_SIZE = 16;
    /** Max bytes of a number with its type. */
    private static final int MAX_NUMBER = 9;

    private ByteBuffer out = ByteBuffer.allocate(256);

    /** The bytes so far. */
    byte[] toBytes() {
        return Arrays.copyOf(out.array(), out.position());
    }

    MessagePackWriter nil() {
        room(1).put((byte) 0xc0);
        return this;
    }

    MessagePackWriter number(double value) {
        room(MAX_NUMBER).put((byte) 0xcb).putDouble(value);
        return this;
    }

    /** Writes an unsigned number of 64 bits. */
    MessagePackWriter unsigned(long value) {
        ByteBuffer to = room(MAX_NUMBER);
        if (value >= 0 && value < FIXED_INT) {
            to.put((byte) value);
        } else if (value >>> 8 == 0) {
            to.put((byte) 0xcc).put((byte) value);
        } else if (value >>> 16 == 0) {
            to.put((byte) 0xcd).putShort((short) value);
        } else if (value >>> 32 == 0) {
            to.put((byte) 0xce).putInt((int) value);
        } else {
            to.put((byte) 0xcf).putLong(value);
        }
        return this;
    }

    MessagePackWriter text(String value) {
        byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
        ByteBuffer to = room(MAX_NUMBER + bytes.length);
        if (bytes.length < FIXED_STRING) {
            to.put((byte) (0xa0 | bytes.length));
        } else if (bytes.length >>> 8 == 0) {
            to.put((byte) 0xd9).put((byte) bytes.length);
        } else if (bytes.length >>> 16 == 0) {
            to.put((byte) 0xda).putShort((short) bytes.length);
        } else {
            to.put((byte) 0xdb).putInt(bytes.length);
        }
        to.put(bytes);
        return this;
    }

    /** Begins an array of {@code size} elements. */
    MessagePackWriter array(int size) {
        return size(size, 0x90, 0xdc);
    }

    /** Begins a map of {@code size} keys, each followed by its value. */
    MessagePackWriter map(int size) {
        return size(size, 0x80, 0xde);
    }

    private MessagePackWriter size(int size, int fixed, int wide) {
        ByteBuffer to = room(MAX_NUMBER);
        if (size < FIXED_SIZE) {
            to.put((byte) (fixed | size));
        } else if (size >>> 16 == 0) {
            to.put((byte) wide).putShort((short) size);
        } else {
            to.put((byte) (wide + 1)).putInt(size);
        }
        return this;
    }

    private ByteBuffer room(int bytes) {
        if (out.remaining() < bytes) {
            out = ByteBuffer.allocate(2 * out.capacity() + bytes).put(out.flip());
        }
        return out;
    }
}
