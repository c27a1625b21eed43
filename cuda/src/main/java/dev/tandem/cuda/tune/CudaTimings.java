package dev.tandem.cuda.tune;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.hostattention.HostTokenTracker;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.step.GraphCache;
import dev.tandem.cuda.step.StepBuffers;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.Profile;
import dev.tandem.fetch.Progress;
import java.util.Optional;

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
    private final ModelShape shape;
    private final StepTimer timer;
    private final StepBuffers inputs;
    /** Empty without attention threads. */
    private final Optional<HostTokenTracker> hostTokens;

    private final Clock clock;

    public CudaTimings(
            Device device,
            Stream stream,
            Kernels kernels,
            KvPools pools,
            ModelShape shape,
            StepTimer timer,
            StepBuffers inputs,
            Optional<HostTokenTracker> hostTokens,
            Clock clock) {
        this.device = device;
        this.stream = stream;
        this.kernels = kernels;
        this.pools = pools;
        this.shape = shape;
        this.timer = timer;
        this.inputs = inputs;
        this.hostTokens = hostTokens;
        this.clock = clock;
    }

    /**
     * Times decode steps on random KV.
     *
     * @param slots for in-flight tokens, empty, beside the rows; 0 without attention threads
     */
    public StepTimer.StepTime timeDecode(int rows, int context, int slots, int repeats) {
        device.makeCurrent();
        randomise();
        return timer.decode(
                inputs.graph(), rows, GraphCache.bucket(rows + slots), context, slots, pools.gpuBlocks(), repeats);
    }

    /** Times decode steps with the last tokens of a prompt as piggybacked prefill. */
    public StepTimer.StepTime timePiggybacked(int rows, int piggybacked, int context, int slots, int repeats) {
        if (piggybacked > context || rows + piggybacked + slots > inputs.graph().rowCapacity()) {
            throw new ConfigurationException(piggybacked + " tokens of a prompt of " + context + " beside " + rows
                    + " rows and " + slots
                    + " slots do not fit into a step of " + inputs.graph().rowCapacity()
                    + " rows; lower --piggybacked or --batch");
        }
        device.makeCurrent();
        randomise();
        return timer.piggybacked(
                inputs.graph(),
                rows,
                piggybacked,
                GraphCache.bucket(rows + piggybacked + slots),
                context,
                slots,
                pools.gpuBlocks(),
                repeats);
    }

    /** Times a step that prefills one prompt of so many tokens. */
    public StepTimer.StepTime timePrefill(int tokens, int repeats) {
        device.makeCurrent();
        return timer.prefill(inputs.first(), tokens, pools.gpuBlocks(), repeats);
    }

    /**
     * Measures the profile that the strategies' cost model uses. Overwrites the KV of both pools.
     *
     * @param decodeRows max rows of decode steps
     * @param promptTokens max rows of a step
     * @throws CudaException without attention threads or host blocks
     */
    public Profile profile(String name, int decodeRows, int promptTokens, Progress progress) {
        HostTokenTracker tokens = hostTokens.orElseThrow(() ->
                new CudaException("profiling needs threads for the CPU's attention: use a strategy with a host tier"));
        if (pools.hostBlocks() == 0) {
            throw new CudaException("profiling needs host KV, and the host pool has no block; raise --host-kv");
        }
        device.makeCurrent();
        randomise();
        CudaProfiler profiler =
                new CudaProfiler(timer, stream, pools, shape, inputs, tokens, clock, decodeRows, promptTokens);
        return profiler.measure(name, progress);
    }

    /** Writes random values into the GPU pool; zeros would make measurements too fast. */
    private void randomise() {
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
