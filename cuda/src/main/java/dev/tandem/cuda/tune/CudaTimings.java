package dev.tandem.cuda.tune;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.step.GraphCache;
import dev.tandem.cuda.step.StepBuffer;
import dev.tandem.engine.config.ConfigurationException;

/**
 * Times steps of an executor that does not serve yet. Overwrites the KV of the GPU pool.
 *
 * <p>Owned by: the thread that measures.
 */
public final class CudaTimings {
    private final Device device;
    private final Stream stream;
    private final Kernels kernels;
    private final KvPools pools;
    private final StepTimer timer;
    private final StepBuffer decodeInputs;
    private final StepBuffer mixedInputs;
    private final int gpuBlocks;

    public CudaTimings(
            Device device,
            Stream stream,
            Kernels kernels,
            KvPools pools,
            StepTimer timer,
            StepBuffer decodeInputs,
            StepBuffer mixedInputs,
            int gpuBlocks) {
        this.device = device;
        this.stream = stream;
        this.kernels = kernels;
        this.pools = pools;
        this.timer = timer;
        this.decodeInputs = decodeInputs;
        this.mixedInputs = mixedInputs;
        this.gpuBlocks = gpuBlocks;
    }

    /**
     * Times decode steps on random KV.
     *
     * @param slots for in-flight tokens, empty, beside the rows; 0 without attention threads
     */
    public StepTimer.StepTime timeDecode(int rows, int context, int slots, int repeats) {
        device.makeCurrent();
        randomise();
        return timer.decode(decodeInputs, rows, GraphCache.bucket(rows + slots), context, slots, gpuBlocks, repeats);
    }

    /** Times decode steps with the last tokens of a prompt as piggybacked prefill. */
    public StepTimer.StepTime timePiggybacked(int rows, int piggybacked, int context, int slots, int repeats) {
        if (piggybacked > context || rows + piggybacked + slots > decodeInputs.rowCapacity()) {
            throw new ConfigurationException(piggybacked + " tokens of a prompt of " + context + " beside " + rows
                    + " rows and " + slots
                    + " slots do not fit into a step of " + decodeInputs.rowCapacity()
                    + " rows; lower --piggybacked or --batch");
        }
        device.makeCurrent();
        randomise();
        return timer.piggybacked(
                decodeInputs,
                rows,
                piggybacked,
                GraphCache.bucket(rows + piggybacked + slots),
                context,
                slots,
                gpuBlocks,
                repeats);
    }

    /** Times a step that prefills one prompt of so many tokens. */
    public StepTimer.StepTime timePrefill(int tokens, int repeats) {
        device.makeCurrent();
        return timer.prefill(mixedInputs, tokens, gpuBlocks, repeats);
    }

    /** Writes random values into the GPU pool; zeros would make measurements too fast. */
    public void randomise() {
        kernels.randomFill.launch(
                stream,
                4096,
                1,
                pools.gpu().address(),
                pools.gpu().bytes() / 2,
                Integer.MAX_VALUE,
                Integer.MAX_VALUE,
                1L,
                0f,
                1f);
    }
}
