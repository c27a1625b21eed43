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
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;

/**
 * The KV blocks that a step converts between the two tiers' formats ({@code struct Moves} of rows.cu). A count comes
 * first, then per move the host block, or where the staging has a copy of it, and the layer blocks of its tokens. The
 * address is fixed, so that CUDA graphs can read it.
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
    /** Layer blocks at which the copies of host blocks begin; for moves through copies only. */
    private int[] copies = new int[0];

    private int count;

    /** Receives consecutive host blocks whose copies are consecutive too; {@code layerBlock} has the first one's. */
    interface Run {
        void accept(int host, int layerBlock, int blocks);
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
    void sum(Stream stream, long gpu, int layer, int count) {
        sums.ifPresent(s -> s.enqueue(stream, this, gpu, layer, count));
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
     *
     * @param layerBlocks one for every {@link ModelShape#BLOCK_TOKENS} tokens of the sequence
     */
    void add(int[] hostBlocks, int[] layerBlocks, int first, int tokens) {
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
                        i * ModelShape.BLOCK_TOKENS < inBlock ? layerBlocks[from / ModelShape.BLOCK_TOKENS + i] : 0);
            }
        }
    }

    private void set(int at, int value) {
        pinned.memory().setAtIndex(JAVA_INT, at, value);
    }

    /** @param step layer blocks from a copy to the next one that the copy engine copies with it */
    void forEachRun(int step, Run run) {
        for (int first = 0, next; first < count; first = next) {
            next = first + 1;
            while (next < count && hosts[next] == hosts[next - 1] + 1 && copies[next] == copies[next - 1] + step) {
                next++;
            }
            run.accept(hosts[first], copies[first], next - first);
        }
    }

    /** Uploads the list for kernels that address blocks of the host pool. */
    void upload(Stream stream) {
        upload(stream, hosts);
    }

    /**
     * Uploads the list for kernels that address copies of host blocks in GPU memory.
     *
     * @param place layer block at which the n-th copy begins
     */
    void upload(Stream stream, IntUnaryOperator place) {
        copies = IntStream.range(0, count).map(place).toArray();
        upload(stream, copies);
    }

    private void upload(Stream stream, int[] blocks) {
        if (count > 0) {
            set(0, count);
            for (int i = 0; i < count; i++) {
                set(INTS * (i + 1), blocks[i]);
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
