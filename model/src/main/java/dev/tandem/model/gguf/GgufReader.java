package dev.tandem.model.gguf;

import dev.tandem.model.ModelException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * A cursor over a GGUF header; every read is checked against the end of the file. It reads from a copy of the header on
 * the heap. A vocabulary takes some hundred thousand small reads, and reads of mapped memory are slow until the JIT has
 * compiled them: they would take seconds.
 *
 * <p>Owned by: the thread that parses the file.
 */
final class GgufReader {
    private static final int FIRST_COPY = 8 << 20;
    /** The largest known vocabularies (260,000 tokens with their merges) take 20 MiB. */
    private static final int MAX_HEADER = 256 << 20;
    /** The longest strings are chat templates of about 100 KiB. */
    private static final int MAX_STRING = 16 << 20;
    /** The longest arrays are merges, with about 500,000 elements; each element is an object on the heap. */
    private static final int MAX_ELEMENTS = 4 << 20;

    private final Path file;
    private final MemorySegment bytes;
    private ByteBuffer head;
    private int at;

    GgufReader(Path file, MemorySegment bytes) {
        this.file = file;
        this.bytes = bytes;
        this.head = copy(FIRST_COPY);
    }

    private ByteBuffer copy(long size) {
        byte[] copied = bytes.asSlice(0, Math.min(size, bytes.byteSize())).toArray(ValueLayout.JAVA_BYTE);
        return ByteBuffer.wrap(copied).order(ByteOrder.LITTLE_ENDIAN);
    }

    long position() {
        return at;
    }

    private int take(long size) {
        if (size < 0 || size > Math.min(bytes.byteSize(), Integer.MAX_VALUE) - at) {
            throw new ModelException(file + " is truncated or corrupt: " + size + " bytes wanted at offset " + at
                    + " of " + bytes.byteSize());
        }
        if (at + size > MAX_HEADER) {
            throw new ModelException(file + " is corrupt: its header is longer than " + MAX_HEADER + " bytes");
        }
        if (at + size > head.capacity()) {
            head = copy(Math.clamp(2L * head.capacity(), at + size, MAX_HEADER));
        }
        int from = at;
        at += (int) size;
        return from;
    }

    int u8() {
        int from = take(1);
        return head.get(from) & 0xFF;
    }

    int u16() {
        int from = take(2);
        return head.getShort(from) & 0xFFFF;
    }

    int i32() {
        int from = take(4);
        return head.getInt(from);
    }

    long i64() {
        int from = take(8);
        return head.getLong(from);
    }

    String string() {
        long claimed = i64();
        if (claimed < 0 || claimed > MAX_STRING) {
            throw new ModelException(file + " is corrupt: a string at offset " + (at - 8) + " claims " + claimed
                    + " bytes; the limit is " + MAX_STRING);
        }
        int length = (int) claimed;
        int from = take(length);
        byte[] text = new byte[length];
        head.get(from, text);
        return new String(text, StandardCharsets.UTF_8);
    }

    /** Reads a count of items that take at least {@code minBytes} each. */
    int count(String what, int minBytes) {
        long count = i64();
        if (count < 0 || count > (bytes.byteSize() - at) / minBytes || count > MAX_ELEMENTS) {
            throw new ModelException(file + " is corrupt: it claims " + count + " " + what + " in "
                    + (bytes.byteSize() - at) + " bytes; the limit is " + MAX_ELEMENTS);
        }
        return (int) count;
    }

    /** Reads a metadata value of GGUF type {@code type}: integers as Long, reals as Double, arrays as Object[]. */
    Object value(int type) {
        return switch (type) {
            case 0 -> (long) u8();
            case 1 -> (long) (byte) u8();
            case 2 -> (long) u16();
            case 3 -> (long) (short) u16();
            case 4 -> i32() & 0xFFFF_FFFFL;
            case 5 -> (long) i32();
            case 6 -> (double) Float.intBitsToFloat(i32());
            case 7 -> u8() != 0;
            case 8 -> string();
            case 9 -> array();
            case 10, 11 -> i64();
            case 12 -> Double.longBitsToDouble(i64());
            default -> throw new ModelException(file + " is corrupt: metadata type " + type + " does not exist");
        };
    }

    private Object[] array() {
        int type = i32();
        if (type == 9) {
            throw new ModelException(file + ": nested metadata arrays are not supported");
        }
        Object[] values = new Object[count("array elements", minBytes(type))];
        for (int i = 0; i < values.length; i++) {
            values[i] = value(type);
        }
        return values;
    }

    private int minBytes(int type) {
        return switch (type) {
            case 0, 1, 7 -> 1;
            case 2, 3 -> 2;
            case 4, 5, 6 -> 4;
            case 8, 10, 11, 12 -> 8;
            default -> throw new ModelException(file + " is corrupt: metadata type " + type + " does not exist");
        };
    }
}
