package dev.tandem.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;

/**
 * KV to convert between the block formats: their number, then a host block and the GPU blocks of its tokens each
 * ({@code struct Moves} of rows.cu). At a fixed address, so that graphs find it.
 *
 * <p>Owned by: engine thread.
 */
final class MoveList implements AutoCloseable {
    private static final int INTS = 8;
    private static final int RATIO = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;

    private final DeviceBuffer device;
    private final PinnedBuffer pinned;
    private int count;

    MoveList(Device owner, int most, String label) {
        device = owner.allocate(bytes(most), label);
        pinned = owner.pinned(bytes(most), label);
    }

    private static long bytes(int moves) {
        return (long) INTS * Integer.BYTES * (1 + moves);
    }

    void clear() {
        count = 0;
    }

    int count() {
        return count;
    }

    long address() {
        return device.address();
    }

    /** One sequence's KV: whole host blocks from the one of {@code first} on, up to {@code tokens}. */
    void add(int[] hostBlocks, int[] gpuBlocks, int first, int tokens) {
        int begin = first / HostFormat.BLOCK_TOKENS * HostFormat.BLOCK_TOKENS;
        for (int from = begin; from < tokens; from += HostFormat.BLOCK_TOKENS) {
            int at = INTS * ++count;
            int here = Math.min(HostFormat.BLOCK_TOKENS, tokens - from);
            set(at, hostBlocks[from / HostFormat.BLOCK_TOKENS]);
            set(at + 1, here);
            for (int i = 0; i < RATIO; i++) {
                set(at + 2 + i, i * ModelShape.BLOCK_TOKENS < here ? gpuBlocks[from / ModelShape.BLOCK_TOKENS + i] : 0);
            }
        }
    }

    private void set(int at, int value) {
        pinned.memory().setAtIndex(JAVA_INT, at, value);
    }

    void upload(Stream stream) {
        if (count > 0) {
            set(0, count);
            stream.upload(device, 0, pinned.memory(), bytes(count));
        }
    }

    @Override
    public void close() {
        device.close();
        pinned.close();
    }
}
