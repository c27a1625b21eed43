package dev.tandem.cuda.kv;

import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.executor.ExecutorException;
import java.lang.foreign.MemorySegment;
import java.util.stream.IntStream;

/**
 * Verifies that the KV of a {@link BlockCopyList} arrives as it left. A checksum covers every value and its logical
 * position in the block, so it does not depend on the block format. The GPU sums its own blocks beside the moves
 * (sum_moved of rows.cu), the CPU sums host blocks.
 *
 * <p>Owned by: engine thread.
 */
public final class TransferChecksums implements AutoCloseable {
    private static final MemorySegment MEMORY = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
    private static final int BLOCKS = 32;

    private final Kernels kernels;
    private final BlockFormat format;
    private final String label;
    /** Layers that are summed of each block. */
    private final int parts;

    private final int layers;
    private final boolean toHost;
    /** [moves of a part's section, parts] sums, written by the GPU. */
    private final PinnedBuffer sums;
    /** [moves of a part's section, parts] sums of host blocks before they leave. */
    private final long[] before;

    /**
     * @param parts of each block
     * @param max moves of a section
     * @param toHost whether the moves go to the host, else to the GPU
     */
    TransferChecksums(
            Device device, Kernels kernels, ModelShape shape, int parts, int max, boolean toHost, String label) {
        this.kernels = kernels;
        this.format = new BlockFormat(shape.config().kvHeads(), shape.config().headDim(), shape.type());
        this.label = label;
        this.parts = parts;
        this.layers = shape.config().layers();
        this.toHost = toHost;
        this.sums = device.pinned((long) Long.BYTES * max * parts, "sums of " + label);
        this.before = new long[toHost ? 0 : max * parts];
    }

    /** Sums the host blocks that leave, before the step. */
    void begin(BlockCopyList moves) {
        if (!toHost) {
            forEach(moves, (move, part) -> before[move * parts + part] = sum(moves, move, part));
        }
    }

    /**
     * Enqueues the GPU's sums of {@code count} parts of one section; the caller orders them before later writes to
     * these blocks.
     *
     * @param gpu address from which the moves count layer blocks of the first part
     */
    void enqueue(Stream stream, BlockCopyList moves, long gpu, int part, int count) {
        kernels.sumMoved.launch(stream, BLOCKS, count, gpu, moves.of(part).address(), part, parts, sums.address());
    }

    /**
     * Compares the sums of the step that has ended.
     *
     * @throws ExecutorException that names the first block that differs
     */
    void verify(BlockCopyList moves) {
        forEach(moves, (move, part) -> {
            long host = toHost ? sum(moves, move, part) : before[move * parts + part];
            if (host != sums.memory().getAtIndex(JAVA_LONG, (long) move * parts + part)) {
                BlockCopyList.Section section = moves.of(part);
                throw new ExecutorException("KV changed on its way (" + label + "): host block " + section.host(move)
                        + ", layer " + part + (parts < layers ? " of its group, " : ", ")
                        + section.tokens(move)
                        + " tokens; --kv-checksums found it. Memory or link is faulty: restart, on other hardware if"
                        + " it happens again");
            }
        });
    }

    private interface MoveAction {
        void accept(int move, int part);
    }

    private void forEach(BlockCopyList moves, MoveAction action) {
        IntStream.range(0, moves.max() * parts).parallel().forEach(i -> {
            int part = i % parts;
            if (i / parts < moves.of(part).count()) {
                action.accept(i / parts, part);
            }
        });
    }

    private long sum(BlockCopyList moves, int move, int part) {
        BlockCopyList.Section section = moves.of(part);
        return sum(format, moves.parts().host().address(part, section.host(move)), section.tokens(move));
    }

    /** The checksum of a host block's first tokens. */
    public static long sum(BlockFormat format, long block, int tokens) {
        long sum = 0;
        for (int head = 0; head < format.kvHeads(); head++) {
            for (int token = 0; token < tokens; token++) {
                for (int dim = 0; dim < format.headDim(); dim++) {
                    sum += mixed(
                            position(format, head, 0, token, dim),
                            MEMORY.get(JAVA_SHORT, block + format.key(head, token, dim)));
                    sum += mixed(
                            position(format, head, 1, token, dim),
                            MEMORY.get(JAVA_SHORT, block + format.value(head, token, dim)));
                }
            }
        }
        return sum;
    }

    private static long position(BlockFormat format, int head, int kind, int token, int dim) {
        return ((head * 2L + kind) * BlockFormat.TOKENS + token) * format.headDim() + dim;
    }

    private static long mixed(long position, short value) {
        long x = (position << 16 | value & 0xffff) * 0x9e3779b97f4a7c15L;
        x = (x ^ x >>> 30) * 0xbf58476d1ce4e5b9L;
        x = (x ^ x >>> 27) * 0x94d049bb133111ebL;
        return x ^ x >>> 31;
    }

    @Override
    public void close() {
        sums.close();
    }
}
