package dev.tandem.model.gguf;

import dev.tandem.model.ModelException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** A cursor over a GGUF header; every read is checked against the file's end. */
final class GgufReader {
    private static final ValueLayout.OfShort SHORT = ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final Path file;
    private final MemorySegment bytes;
    private long at;

    GgufReader(Path file, MemorySegment bytes) {
        this.file = file;
        this.bytes = bytes;
    }

    long position() {
        return at;
    }

    private long take(long size) {
        if (size < 0 || size > bytes.byteSize() - at) {
            throw new ModelException(file + " is truncated or corrupt: " + size + " bytes wanted at offset " + at
                    + " of " + bytes.byteSize());
        }
        long from = at;
        at += size;
        return from;
    }

    int u8() {
        return bytes.get(ValueLayout.JAVA_BYTE, take(1)) & 0xFF;
    }

    int u16() {
        return bytes.get(SHORT, take(2)) & 0xFFFF;
    }

    int i32() {
        return bytes.get(INT, take(4));
    }

    long i64() {
        return bytes.get(LONG, take(8));
    }

    String string() {
        long length = i64();
        long from = take(length);
        byte[] text = bytes.asSlice(from, length).toArray(ValueLayout.JAVA_BYTE);
        return new String(text, StandardCharsets.UTF_8);
    }

    /** A count of things that take at least {@code least} bytes each. */
    int count(String what, int least) {
        long count = i64();
        if (count < 0 || count > (bytes.byteSize() - at) / least) {
            throw new ModelException(file + " is corrupt: it claims " + count + " " + what);
        }
        return (int) count;
    }

    /** One metadata value of GGUF type {@code type}; integers as Long, reals as Double, arrays as Object[]. */
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
        Object[] values = new Object[count("array elements", 1)];
        for (int i = 0; i < values.length; i++) {
            values[i] = value(type);
        }
        return values;
    }
}
