package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.Lanes;
import java.util.ArrayList;
import java.util.List;

/** The implementations of decode attention that this machine can run. */
public final class DecodeImplementations {
    private DecodeImplementations() {}

    /** All implementations that can compute this shape on this machine, the fastest first. */
    public static List<PagedDecodeAttention> all(BlockFormat format, int heads) {
        List<PagedDecodeAttention> all = new ArrayList<>();
        if (AmxDecodeAttention.supports(format, heads)) {
            AmxLibrary.find().ifPresent(library -> all.add(new AmxDecodeAttention(library, format, heads)));
        }
        all.add(new VectorDecodeAttention(format, heads));
        return all;
    }

    /** The names of all implementations, including those that this machine cannot run. */
    public static List<String> names() {
        return List.of("amx", "vector-" + Lanes.bits());
    }
}
