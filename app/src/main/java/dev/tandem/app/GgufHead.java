package dev.tandem.app;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.Set;

/**
 * What must be read of a GGUF file so that its model can be checked without its weights. It is only measured here, and
 * read by {@link dev.tandem.model.gguf.GgufFile}.
 *
 * @param bytes length of metadata and tensor descriptions
 * @param ropeFrequencies bytes of the frequency divisors, which belong to the configuration
 */
record GgufHead(long bytes, Optional<Range> ropeFrequencies) {
    private static final int MAGIC = 0x46554747;
    private static final Set<String> ROPE_FREQUENCIES = Set.of("rope_freqs.weight", "rope_factors_short.weight");
    private static final int STRING = 8;
    private static final int ARRAY = 9;
    /** Bytes of a value by its GGUF type; 0 for strings and arrays. */
    private static final int[] VALUE_BYTES = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

    /** Bytes of a file from {@code from} on. */
    record Range(long from, int bytes) {}

    /** Measures the beginning of a file; empty when more of it is needed. */
    static Optional<GgufHead> measure(byte[] beginning) {
        ByteBuffer in = ByteBuffer.wrap(beginning).order(ByteOrder.LITTLE_ENDIAN);
        try {
            return Optional.of(measure(in));
        } catch (BufferUnderflowException e) {
            return Optional.empty();
        }
    }

    private static GgufHead measure(ByteBuffer in) {
        if (in.getInt() != MAGIC) {
            return new GgufHead(in.position(), Optional.empty()); // the reader refuses it
        }
        in.getInt();
        long tensors = in.getLong();
        long entries = in.getLong();
        long alignment = 32;
        for (long i = 0; i < entries; i++) {
            boolean isAlignment = string(in).equals("general.alignment");
            int type = in.getInt();
            if (isAlignment && type == 4) {
                alignment = Math.max(1, in.getInt(in.position()));
            }
            skipValue(in, type);
        }
        Range rope = null;
        for (long i = 0; i < tensors; i++) {
            String name = string(in);
            long elements = 1;
            for (int dimensions = in.getInt(); dimensions > 0; dimensions--) {
                elements *= in.getLong();
            }
            in.getInt();
            long offset = in.getLong();
            if (ROPE_FREQUENCIES.contains(name) && elements > 0 && elements < 1 << 16) {
                rope = new Range(offset, (int) elements * Float.BYTES);
            }
        }
        long end = in.position();
        long data = (end + alignment - 1) / alignment * alignment;
        return new GgufHead(end, Optional.ofNullable(rope).map(r -> new Range(data + r.from(), r.bytes())));
    }

    private static String string(ByteBuffer in) {
        byte[] text = new byte[Math.toIntExact(Math.clamp(in.getLong(), 0, in.remaining() + 1L))];
        in.get(text);
        return new String(text, StandardCharsets.UTF_8);
    }

    private static void skip(ByteBuffer in, long bytes) {
        if (bytes < 0 || bytes > in.remaining()) {
            throw new BufferUnderflowException();
        }
        in.position(in.position() + (int) bytes);
    }

    private static void skipValue(ByteBuffer in, int type) {
        if (type == STRING) {
            skip(in, in.getLong());
        } else if (type == ARRAY) {
            int elementType = in.getInt();
            long count = in.getLong();
            if (elementType == STRING) {
                for (long i = 0; i < count; i++) {
                    skip(in, in.getLong());
                }
            } else {
                skip(in, count * bytes(elementType));
            }
        } else {
            skip(in, bytes(type));
        }
    }

    private static int bytes(int type) {
        if (type < 0 || type >= VALUE_BYTES.length || VALUE_BYTES[type] == 0) {
            throw new BufferUnderflowException(); // no such type: the whole file is read, and refused
        }
        return VALUE_BYTES[type];
    }
}
