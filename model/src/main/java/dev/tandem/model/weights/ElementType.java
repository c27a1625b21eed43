package dev.tandem.model.weights;

import java.lang.foreign.MemorySegment;

/**
 * The encoding of a tensor's values in its file. Quantised types store blocks of {@link #blockElements()} consecutive
 * values of one row in {@link #blockBytes()} bytes.
 */
public enum ElementType {
    F32(1, 4),
    F16(1, 2),
    BF16(1, 2),
    Q4_0(32, 18),
    Q4_1(32, 20),
    Q5_0(32, 22),
    Q5_1(32, 24),
    Q8_0(32, 34),
    Q4_K(256, 144),
    Q5_K(256, 176),
    Q6_K(256, 210);

    private final int blockElements;
    private final int blockBytes;

    ElementType(int blockElements, int blockBytes) {
        this.blockElements = blockElements;
        this.blockBytes = blockBytes;
    }

    public int blockElements() {
        return blockElements;
    }

    public int blockBytes() {
        return blockBytes;
    }

    /** Whether values are stored in blocks that share a scale. */
    public boolean quantised() {
        return blockElements > 1;
    }

    public long bytes(long elements) {
        return elements / blockElements * blockBytes;
    }

    /**
     * Unpacks {@code elements} values, a whole number of blocks, to fp32.
     *
     * @param offset byte offset of the first block in {@code data}
     */
    public void unpack(MemorySegment data, long offset, int elements, float[] out, int outOffset) {
        switch (this) {
            case F32 -> PlainUnpacking.f32(data, offset, elements, out, outOffset);
            case F16 -> PlainUnpacking.f16(data, offset, elements, out, outOffset);
            case BF16 -> PlainUnpacking.bf16(data, offset, elements, out, outOffset);
            case Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K -> {
                for (int done = 0; done < elements; done += blockElements) {
                    unpackBlock(data, offset, out, outOffset + done);
                    offset += blockBytes;
                }
            }
        }
    }

    private void unpackBlock(MemorySegment data, long at, float[] out, int to) {
        switch (this) {
            case Q4_0 -> BlockUnpacking.q4_0(data, at, out, to);
            case Q4_1 -> BlockUnpacking.q4_1(data, at, out, to);
            case Q5_0 -> BlockUnpacking.q5_0(data, at, out, to);
            case Q5_1 -> BlockUnpacking.q5_1(data, at, out, to);
            case Q8_0 -> BlockUnpacking.q8_0(data, at, out, to);
            case Q4_K -> BlockUnpacking.q4_k(data, at, out, to);
            case Q5_K -> BlockUnpacking.q5_k(data, at, out, to);
            case Q6_K -> BlockUnpacking.q6_k(data, at, out, to);
            case F32, F16, BF16 -> throw new IllegalStateException(this + " has no blocks");
        }
    }
}
