package dev.tandem.cpu.decode;

import java.util.ArrayList;
import java.util.List;

/** Which implementations of decode attention this machine can run. */
public final class DecodeImplementations {
    private DecodeImplementations() {}

    /** All that can run this shape here, the fastest first. */
    public static List<PagedDecodeAttention> all(BlockFormat format, int heads) {
        List<PagedDecodeAttention> all = new ArrayList<>();
        all.add(new VectorDecodeAttention(format, heads));
        return all;
    }
}
