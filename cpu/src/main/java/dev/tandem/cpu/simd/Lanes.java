package dev.tandem.cpu.simd;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/**
 * The vector width all kernels use: the machine's preferred one, or {@code -Dtandem.vector.bits=128|256|512}, which
 * tests use to run every width. Results do not depend on it where a kernel sums along a dimension that is not a lane.
 */
public final class Lanes {
    private static final VectorShape SHAPE = shape();

    static final VectorSpecies<Float> F = VectorSpecies.of(float.class, SHAPE);
    static final VectorSpecies<Integer> I = VectorSpecies.of(int.class, SHAPE);
    /** As many shorts as {@link #F} has floats. */
    static final VectorSpecies<Short> S =
            VectorSpecies.of(short.class, VectorShape.forBitSize(SHAPE.vectorBitSize() / 2));

    /** Floats a vector. */
    public static final int COUNT = F.length();
    /** Output columns that one kernel call computes: two vectors. */
    public static final int PANEL = 2 * COUNT;

    /**
     * Whether there are 32 vector registers. On x86 that takes AVX-512, and they are there at every width then; other
     * architectures with vectors have them always.
     */
    static final boolean MANY_REGISTERS =
            hasManyRegisters(System.getProperty("os.arch"), FloatVector.SPECIES_PREFERRED.vectorBitSize());

    private static final int FLOATS_PER_CACHE_LINE = 16;
    /**
     * Floats between what one thread writes all the time and what others read: a line of memory, and the one that is
     * brought with it. The collector puts objects of several threads side by side.
     */
    public static final int APART = 2 * FLOATS_PER_CACHE_LINE;

    static final ByteOrder LE = ByteOrder.LITTLE_ENDIAN;
    /** The whole address space as one segment that never closes: bounds and lifetime checks fold to constants. */
    static final MemorySegment MEMORY = MemorySegment.NULL.reinterpret(Long.MAX_VALUE, Arena.global(), null);

    private Lanes() {}

    /** @param bits of the machine's preferred vectors */
    static boolean hasManyRegisters(String architecture, int bits) {
        boolean x86 = architecture.equals("amd64") || architecture.equals("x86_64");
        return !x86 || bits >= 512;
    }

    private static VectorShape shape() {
        Integer bits = Integer.getInteger("tandem.vector.bits");
        return bits == null ? FloatVector.SPECIES_PREFERRED.vectorShape() : VectorShape.forBitSize(bits);
    }

    /** {@code size} rounded up to whole panels. */
    public static int padded(int size) {
        return (size + PANEL - 1) / PANEL * PANEL;
    }

    /**
     * Distance of rows of {@code size} values: whole panels, and an odd number of cache lines. With 12,288 bytes, as a
     * feed-forward of 1,536 would have it, the same column of all rows falls into one set of the first-level cache.
     */
    public static int stride(int size) {
        int padded = padded(size);
        return padded / FLOATS_PER_CACHE_LINE % 2 == 0 ? padded + FLOATS_PER_CACHE_LINE : padded;
    }

    public static int bits() {
        return SHAPE.vectorBitSize();
    }

    static FloatVector load(long address) {
        return FloatVector.fromMemorySegment(F, MEMORY, address, LE);
    }

    static IntVector loadInts(long address) {
        return IntVector.fromMemorySegment(I, MEMORY, address, LE);
    }

    static ShortVector loadShorts(long address) {
        return ShortVector.fromMemorySegment(S, MEMORY, address, LE);
    }
}
