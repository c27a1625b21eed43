package dev.tandem.cuda.kv;

import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.hostattention.HostAttentionWorkers.HostBlocks;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.executor.ExecutorException;
import java.lang.foreign.MemorySegment;
import java.util.stream.IntStream;

/**
 * Whether the KV of a {@link BlockCopyList} arrived as it left: sums over every value and its place in the block, which
 * do not depend on the format; the GPU takes them of its blocks beside the moves (sum_moved of rows.cu), the CPU of
 * host blocks.
 *
 * <p>Owned by: engine thread.
 */
public final class TransferChecksums implements AutoCloseable {
    private static final MemorySegment MEMORY = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
    private static final int BLOCKS = 32;

    private final Kernels kernels;
    private final BlockFormat format;
    private final HostBlocks host;
    private final String label;
    private final int layers;
    private final boolean toHost;
    /** [moves, layers], by the GPU. */
    private final PinnedBuffer sums;
    /** Likewise, of host blocks before they leave. */
    private final long[] before;

    /**
     * @param max moves
     * @param toHost where they go
     */
    TransferChecksums(
            Device device, Kernels kernels, ModelShape shape, HostBlocks host, int max, boolean toHost, String label) {
        this.kernels = kernels;
        this.format = new BlockFormat(shape.config().kvHeads(), shape.config().headDim(), shape.type());
        this.host = host;
        this.label = label;
        this.layers = shape.config().layers();
        this.toHost = toHost;
        this.sums = device.pinned((long) Long.BYTES * max * layers, "sums of " + label);
        this.before = new long[toHost ? 0 : max * layers];
    }

    /** Before the step: what leaves the host, as it is there. */
    void begin(BlockCopyList moves) {
        if (!toHost) {
            each(moves, (move, layer) -> before[move * layers + layer] = sum(moves, move, layer));
        }
    }

    /**
     * Enqueues the GPU's sums of {@code count} layers, before anybody else writes to its blocks.
     *
     * @param gpu address of the first one's blocks
     * @param gpuLayer bytes to the next
     */
    void enqueue(Stream stream, BlockCopyList moves, long gpu, long gpuLayer, int layer, int count) {
        kernels.sumMoved.launch(
                stream, BLOCKS, count, gpu, gpuLayer / Short.BYTES, moves.address(), layer, layers, sums.address());
    }

    /**
     * After the step.
     *
     * @throws ExecutorException that names the first block that differs
     */
    void verify(BlockCopyList moves) {
        each(moves, (move, layer) -> {
            long there = toHost ? sum(moves, move, layer) : before[move * layers + layer];
            if (there != sums.memory().getAtIndex(JAVA_LONG, (long) move * layers + layer)) {
                throw new ExecutorException("KV changed on its way (" + label + "): host block " + moves.host(move)
                        + ", layer " + layer + ", "
                        + moves.tokens(move)
                        + " tokens; --kv-checksums found it. Memory or link are not to be trusted: restart, on other"
                        + " hardware if it happens again");
            }
        });
    }

    private interface Sum {
        void of(int move, int layer);
    }

    private void each(BlockCopyList moves, Sum sum) {
        IntStream.range(0, moves.count() * layers).parallel().forEach(i -> sum.of(i / layers, i % layers));
    }

    private long sum(BlockCopyList moves, int move, int layer) {
        return sum(format, host.address(layer, moves.host(move)), moves.tokens(move));
    }

    /** Of a host block's first tokens. */
    public static long sum(BlockFormat format, long block, int tokens) {
        long sum = 0;
        for (int head = 0; head < format.kvHeads(); head++) {
            for (int token = 0; token < tokens; token++) {
                for (int dim = 0; dim < format.headDim(); dim++) {
                    sum += mixed(
                            place(format, head, 0, token, dim),
                            MEMORY.get(JAVA_SHORT, block + format.key(head, token, dim)));
                    sum += mixed(
                            place(format, head, 1, token, dim),
                            MEMORY.get(JAVA_SHORT, block + format.value(head, token, dim)));
                }
            }
        }
        return sum;
    }

    private static long place(BlockFormat format, int head, int kind, int token, int dim) {
        return ((head * 2L + kind) * BlockFormat.TOKENS + token) * format.headDim() + dim;
    }

    private static long mixed(long place, short value) {
        long x = (place << 16 | value & 0xffff) * 0x9e3779b97f4a7c15L;
        x = (x ^ x >>> 30) * 0xbf58476d1ce4e5b9L;
        x = (x ^ x >>> 27) * 0x94d049bb133111ebL;
        return x ^ x >>> 31;
    }

    @Override
    public void close() {
        sums.close();
    }
}
