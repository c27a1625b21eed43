package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.Lanes;
import java.util.ArrayList;
import java.util.List;

/** Which implementations of decode attention this machine can run. */
public final class DecodeImplementations {
    private DecodeImplementations() {}

    /** All that can run this shape here, the fastest first. */
    public static List<PagedDecodeAttention> all(BlockFormat format, int heads) {
        List<PagedDecodeAttention> all = new ArrayList<>();
        if (AmxDecodeAttention.supports(format, heads)) {
            AmxLibrary.find().ifPresent(library -> all.add(new AmxDecodeAttention(library, format, heads)));
        }
        all.add(new VectorDecodeAttention(format, heads));
        return all;
    }

    /** Names of those that exist for this build, whether or not they run here. */
    public static List<String> names() {
        return List.of("amx", "vector-" + Lanes.bits());
    }
}
