package dev.tandem.cuda.hostattention;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.model.config.ModelConfig;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * The memory through which GPU and CPU exchange host tokens ({@code struct HostTokens} of prelude.cu).
 *
 * <pre>
 *  the step's kernels             transfer kernel, beside them         a worker on the CPU
 *  a token leaves the batch ────► q, k, v to {@code sent},  ────────► takes the next entry, appends K and V,
 *    after the QKV projection     entry to {@code tasks}              attends, writes {@code results},
 *  a token rejoins the batch ◄─── {@code returnQueues[layer]} ◄─────  entry to {@code ready}
 * </pre>
 *
 * <p>Other in-flight tokens make no kernel and no worker wait: a layer takes the results that have arrived when it
 * starts, the transfer kernel what is ready, a worker the next entry ({@link HostAttentionQueues}).
 *
 * <p>A step that resumes in-flight tokens waits for those, at each layer from the one where they stand. It has no
 * transfer kernel: {@code send_in_flight} and {@code receive_in_flight} transfer in its place.
 *
 * <p>Same-layer tokens use the same indices and memory, with rings of their own. {@code rope_store} pushes their tasks,
 * and {@code receive_host_tokens} waits for the results.
 *
 * <p>Owned by: the executor.
 */
public final class HostLinkMemory implements AutoCloseable {
    /** Max slots of a step. */
    public static final int MAX_SLOTS = KernelConstants.MAX_SLOTS;
    /**
     * Slots that suffice for tokens that are spread over the layers: 1,024 in-flight tokens over 32 layers are 32 per
     * layer.
     */
    public static final int USUAL_SLOTS = 64;

    private static final int MAX = HostAttentionQueues.MAX;
    /** Size of {@code struct Draw}, which prelude.cu asserts. */
    private static final int DRAW_BYTES = 32;
    /** Size of {@code struct HostTokens}, which prelude.cu asserts. */
    private static final int HOST_TOKENS_BYTES = 200;

    private final List<AutoCloseable> owned = new ArrayList<>();
    private final DeviceBuffer structure;
    private final HostAttentionQueues queues;

    /**
     * @param timeoutNanos max time that a step waits for a same-layer token's attention in a layer
     * @param stepNanos max time of a step, after which its transfer kernel ends
     */
    public HostLinkMemory(Device device, Stream stream, ModelShape shape, long timeoutNanos, long stepNanos) {
        ModelConfig config = shape.config();
        int layers = config.layers();
        int half = shape.type().bytes();
        int sentBytes = HostAttentionQueues.sentBytes(config, half);
        int resultBytes = HostAttentionQueues.resultBytes(config, half);
        DeviceBuffer residual = buffer(device, 4L * MAX * shape.hidden(), "residuals of in-flight tokens");
        int rotations = shape.variant().rotations().size();
        DeviceBuffer angles = buffer(device, 4L * MAX * rotations * config.headDim(), "angles of in-flight tokens");
        DeviceBuffer draws = buffer(device, (long) DRAW_BYTES * MAX, "draws of in-flight tokens");
        DeviceBuffer slotMaps = buffer(device, 4L * (layers + 1) * MAX_SLOTS, "slots");
        DeviceBuffer outgoing = buffer(device, (long) MAX * sentBytes, "q, k and v of in-flight tokens");
        DeviceBuffer incoming = buffer(device, (long) MAX * resultBytes, "attention that has arrived");
        DeviceBuffer sendQueue = buffer(device, 8L * MAX, "the queue of in-flight tokens to send");
        DeviceBuffer returnQueues = buffer(device, 8L * MAX * layers, "queues of returned attention");
        DeviceBuffer stamps = buffer(device, 8L * (layers + 1), "times of layers");
        DeviceBuffer waits = buffer(device, 8L * 4 * layers, "times of waits");
        DeviceBuffer counters = buffer(device, 8L * (2 * layers + 4), "ring counters");
        DeviceBuffer sentParts = buffer(device, 4L * MAX, "thread blocks that have sent a host token");
        DeviceBuffer waiting = buffer(device, 4L * MAX, "layers at which in-flight tokens wait");
        PinnedBuffer taskRing = pinned(device, 8L * MAX, "the ring of attention tasks");
        PinnedBuffer readyRing = pinned(device, 8L * MAX, "the ring of attention results");
        PinnedBuffer sent = pinned(device, (long) MAX * sentBytes, "q, k and v of in-flight tokens");
        PinnedBuffer results = pinned(device, (long) MAX * resultBytes, "attention of in-flight tokens");
        PinnedBuffer sameLayerTasks = pinned(device, 8L * MAX, "the ring of tasks that a step waits for");
        PinnedBuffer completed = pinned(device, 8L * (MAX + 1), "numbers of completed tasks");
        structure = buffer(device, HOST_TOKENS_BYTES, "addresses of host tokens");
        taskRing.memory().fill((byte) 0);
        readyRing.memory().fill((byte) 0);
        sameLayerTasks.memory().fill((byte) 0);
        completed.memory().fill((byte) 0);
        queues = new HostAttentionQueues(
                config,
                half,
                new HostAttentionQueues.Memory(
                        taskRing.memory(),
                        readyRing.memory(),
                        sent.memory(),
                        results.memory(),
                        sameLayerTasks.memory(),
                        completed.memory()));
        long[] structureWords = { // the fields of struct HostTokens, in its order
            residual.address(),
            angles.address(),
            draws.address(),
            slotMaps.address(),
            outgoing.address(),
            incoming.address(),
            sendQueue.address(),
            returnQueues.address(),
            counters.address(),
            counters.address() + 8L * layers,
            counters.address() + 16L * layers,
            taskRing.address(),
            readyRing.address(),
            sent.address(),
            results.address(),
            MAX - 1,
            stamps.address(),
            sameLayerTasks.address(),
            completed.address(),
            completed.address() + 8L * MAX,
            waits.address(),
            timeoutNanos,
            sentParts.address(),
            stepNanos,
            waiting.address()
        };
        try (PinnedBuffer staging = device.pinned(HOST_TOKENS_BYTES, "addresses")) {
            MemorySegment.copy(structureWords, 0, staging.memory(), JAVA_LONG, 0, structureWords.length);
            stream.upload(structure, 0, staging.memory(), HOST_TOKENS_BYTES);
            stream.fill(residual, 0);
            stream.fill(angles, 0);
            stream.fill(draws, 0);
            stream.fill(slotMaps, -1);
            stream.fill(counters, 0);
            stream.fill(sendQueue, 0);
            stream.fill(returnQueues, 0);
            stream.fill(incoming, 0);
            stream.fill(waits, 0);
            stream.fill(sentParts, 0);
            stream.fill(waiting, -1);
            stream.synchronise();
        }
    }

    private DeviceBuffer buffer(Device device, long bytes, String label) {
        DeviceBuffer buffer = device.allocate((bytes + 255) / 256 * 256, label);
        owned.add(buffer);
        return buffer;
    }

    private PinnedBuffer pinned(Device device, long bytes, String label) {
        PinnedBuffer buffer = device.pinned(bytes, label);
        owned.add(buffer);
        return buffer;
    }

    /** Address of {@code struct HostTokens} on the GPU. */
    public long address() {
        return structure.address();
    }

    /** The queues that the host reads and writes. */
    public HostAttentionQueues queues() {
        return queues;
    }

    @Override
    public void close() {
        Resources.closeAll(owned);
    }
}
