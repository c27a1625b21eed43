package dev.tandem.cuda.kv;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.kernels.ModelShape;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * The KV blocks that a step converts between the two tiers' formats ({@code struct Moves} of rows.cu). A count comes
 * first, then per move the host block, or its number in this list, and the GPU blocks of its tokens. The address is
 * fixed, so that CUDA graphs can read it.
 *
 * <p>Owned by: engine thread.
 */
final class BlockCopyList implements AutoCloseable {
    private static final int INTS = 8;
    private static final int RATIO = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;

    private final DeviceBuffer device;
    private final PinnedBuffer pinned;
    /** Empty without --kv-checksums. */
    private Optional<TransferChecksums> sums = Optional.empty();

    private int[] hosts = new int[64];
    private int count;

    /** Receives consecutive host blocks; {@code slot} is the first one's number in the list. */
    interface Run {
        void accept(int host, int slot, int blocks);
    }

    BlockCopyList(Device owner, int max, String label) {
        device = owner.allocate(bytes(max), label);
        pinned = owner.pinned(bytes(max), label);
    }

    /** Verifies what moves from now on; takes ownership. */
    void check(TransferChecksums sums) {
        this.sums = Optional.of(sums);
    }

    /** {@link TransferChecksums#begin}, where moves are verified. */
    void beginSums() {
        sums.ifPresent(s -> s.begin(this));
    }

    /** {@link TransferChecksums#enqueue}, where moves are verified. */
    void sum(Stream stream, long gpu, long gpuLayer, int layer, int count) {
        sums.ifPresent(s -> s.enqueue(stream, this, gpu, gpuLayer, layer, count));
    }

    /** {@link TransferChecksums#verify}, where moves are verified. */
    void verifySums() {
        sums.ifPresent(s -> s.verify(this));
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

    int host(int move) {
        return hosts[move];
    }

    int tokens(int move) {
        return pinned.memory().getAtIndex(JAVA_INT, INTS * (move + 1) + 1);
    }

    long address() {
        return device.address();
    }

    /**
     * Adds a sequence's host blocks, from the one that holds token {@code first} to the last of {@code tokens} tokens.
     */
    void add(int[] hostBlocks, int[] gpuBlocks, int first, int tokens) {
        int begin = first / HostFormat.BLOCK_TOKENS * HostFormat.BLOCK_TOKENS;
        for (int from = begin; from < tokens; from += HostFormat.BLOCK_TOKENS) {
            if (count == hosts.length) {
                hosts = Arrays.copyOf(hosts, 2 * count);
            }
            hosts[count] = hostBlocks[from / HostFormat.BLOCK_TOKENS];
            int at = INTS * ++count;
            int inBlock = Math.min(HostFormat.BLOCK_TOKENS, tokens - from);
            set(at + 1, inBlock);
            for (int i = 0; i < RATIO; i++) {
                set(
                        at + 2 + i,
                        i * ModelShape.BLOCK_TOKENS < inBlock ? gpuBlocks[from / ModelShape.BLOCK_TOKENS + i] : 0);
            }
        }
    }

    private void set(int at, int value) {
        pinned.memory().setAtIndex(JAVA_INT, at, value);
    }

    void forEachRun(Run run) {
        for (int first = 0, next; first < count; first = next) {
            for (next = first + 1; next < count && hosts[next] == hosts[next - 1] + 1; ) {
                next++;
            }
            run.accept(hosts[first], first, next - first);
        }
    }

    /** @param numbered whether kernels address host blocks by their number in the list, rather than in the pool */
    void upload(Stream stream, boolean numbered) {
        if (count > 0) {
            set(0, count);
            for (int i = 0; i < count; i++) {
                set(INTS * (i + 1), numbered ? i : hosts[i]);
            }
            stream.upload(device, 0, pinned.memory(), bytes(count));
        }
    }

    @Override
    public void close() {
        List<AutoCloseable> all = new ArrayList<>(List.of(device, pinned));
        sums.ifPresent(all::add);
        Resources.closeAll(all);
    }
}
