package dev.tandem.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.engine.kv.Place;
import dev.tandem.engine.kv.Swap;

/**
 * The bytes of KV blocks in both places, [layers][blocks] of the block format of prelude.cu: GPU memory, and pinned host
 * memory where preempted KV waits. A kernel copies between them over the link.
 *
 * <p>Owned by: the executor.
 */
final class KvPools implements AutoCloseable {
    private final ModelShape shape;
    private final int gpuBlocks;
    private final int hostBlocks;
    private final DeviceBuffer gpu;
    private final PinnedBuffer host;
    /** (from, to) of the swaps of a step, read by the kernel while the step runs. */
    private final PinnedBuffer pairs;
    private int pairCount;

    KvPools(Device device, ModelShape shape, int gpuBlocks, long hostBytes) {
        this.shape = shape;
        long blockBytes = shape.blockBytes() * shape.config().layers();
        this.gpuBlocks = gpuBlocks;
        this.hostBlocks = (int) Math.min(Integer.MAX_VALUE, hostBytes / blockBytes);
        this.gpu = device.allocate(gpuBlocks * blockBytes, "the GPU KV pool");
        this.host = device.pinned(hostBlocks * blockBytes, "the host KV pool");
        // a step may swap the whole pool out and fill it again
        this.pairs = device.pinned(16L * gpuBlocks, "block numbers of swaps");
    }

    DeviceBuffer gpu() {
        return gpu;
    }

    int gpuBlocks() {
        return gpuBlocks;
    }

    int hostBlocks() {
        return hostBlocks;
    }

    long hostBytes() {
        return hostBlocks * shape.blockBytes() * shape.config().layers();
    }

    /** Before a step's swaps; those of the step before have run. */
    void beginStep() {
        pairCount = 0;
    }

    void swap(Stream stream, CudaForward forward, Swap swap) {
        int count = swap.fromBlocks().length;
        for (int i = 0; i < count; i++) {
            pairs.memory().setAtIndex(JAVA_INT, 2L * (pairCount + i), swap.fromBlocks()[i]);
            pairs.memory().setAtIndex(JAVA_INT, 2L * (pairCount + i) + 1, swap.toBlocks()[i]);
        }
        forward.copyBlocks(
                stream, address(swap.from()), blocks(swap.from()), address(swap.to()), blocks(swap.to()),
                pairs.address() + 8L * pairCount, count);
        pairCount += count;
    }

    private long address(Place place) {
        return place == Place.GPU ? gpu.address() : host.address();
    }

    private int blocks(Place place) {
        return place == Place.GPU ? gpuBlocks : hostBlocks;
    }

    @Override
    public void close() {
        gpu.close();
        host.close();
        pairs.close();
    }
}
