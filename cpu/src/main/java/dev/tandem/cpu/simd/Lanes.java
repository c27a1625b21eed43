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
 * The vector width that all kernels use: the machine's preferred one, or {@code -Dtandem.vector.bits=128|256|512}, with
 * which tests run every width. The width does not change the result of a kernel that never sums across lanes.
 */
public final class Lanes {
    private static final VectorShape SHAPE = shape();

    static final VectorSpecies<Float> F = VectorSpecies.of(float.class, SHAPE);
    static final VectorSpecies<Integer> I = VectorSpecies.of(int.class, SHAPE);
    /** As many shorts as {@link #F} has floats. */
    static final VectorSpecies<Short> S =
            VectorSpecies.of(short.class, VectorShape.forBitSize(SHAPE.vectorBitSize() / 2));

    /** Floats per vector. */
    public static final int COUNT = F.length();
    /** Output columns per panel of a packed matrix: two vectors. */
    public static final int PANEL = 2 * COUNT;

    /**
     * Whether there are 32 vector registers. On x86 this takes AVX-512, which has them at every width. All other
     * architectures with vectors have them.
     */
    static final boolean MANY_REGISTERS =
            hasManyRegisters(System.getProperty("os.arch"), FloatVector.SPECIES_PREFERRED.vectorBitSize());

    private static final int FLOATS_PER_CACHE_LINE = 16;
    /**
     * Floats of padding around data that one thread writes all the time, against false sharing: two cache lines,
     * because the processor fetches lines in pairs. The garbage collector places objects of several threads side by
     * side.
     *
     * <p>Measured with 16 threads: without it, decode attention reached 0.59 or 0.83 of the peak read bandwidth,
     * depending on where the objects were.
     */
    public static final int APART = 2 * FLOATS_PER_CACHE_LINE;

    static final ByteOrder LE = ByteOrder.LITTLE_ENDIAN;
    /** The whole address space as one segment that never closes, so bounds and lifetime checks become constants. */
    public static final MemorySegment MEMORY = MemorySegment.NULL.reinterpret(Long.MAX_VALUE, Arena.global(), null);

    private Lanes() {}

    /**
     * Whether an architecture has 32 vector registers.
     *
     * @param bits the width of the machine's preferred vectors
     */
    static boolean hasManyRegisters(String architecture, int bits) {
        boolean x86 = architecture.equals("amd64") || architecture.equals("x86_64");
        return !x86 || bits >= 512;
    }

    private static VectorShape shape() {
        Integer bits = Integer.getInteger("tandem.vector.bits");
        return bits == null ? FloatVector.SPECIES_PREFERRED.vectorShape() : VectorShape.forBitSize(bits);
    }

    /** Rounds {@code size} up to whole panels. */
    public static int padded(int size) {
        return (size + PANEL - 1) / PANEL * PANEL;
    }

    /**
     * The distance between rows of {@code size} values, in floats: whole panels, and an odd number of cache lines. Rows
     * 12,288 bytes apart, as in an MLP of 1,536, would map a column of all rows to one set of the first-level cache.
     */
    public static int stride(int size) {
        int padded = padded(size);
        return padded / FLOATS_PER_CACHE_LINE % 2 == 0 ? padded + FLOATS_PER_CACHE_LINE : padded;
    }

    /** Bits per vector. */
    public static int bits() {
        return SHAPE.vectorBitSize();
    }

    static FloatVector load(long address) {
        return FloatVector.fromMemorySegment(F, MEMORY, address, LE);
    }

    static void store(FloatVector values, long address) {
        values.intoMemorySegment(MEMORY, address, LE);
    }

    static IntVector loadInts(long address) {
        return IntVector.fromMemorySegment(I, MEMORY, address, LE);
    }

    static ShortVector loadShorts(long address) {
        return ShortVector.fromMemorySegment(S, MEMORY, address, LE);
    }
}
