package dev.tandem.cuda;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.CudaForward;
import dev.tandem.cuda.hostattention.HostTokenTracker;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.step.OutstandingSteps;
import dev.tandem.cuda.step.StepDeadline;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import java.util.Optional;

/**
 * For tests: makes parts of an executor fail.
 *
 * <p>Owned by: engine thread.
 */
final class CudaFaults {
    private final Device device;
    private final Stream stream;
    private final CudaForward forward;
    private final KvPools pools;
    private final OutstandingSteps steps;
    private final Optional<HostTokenTracker> hostTokens;
    private boolean poisons;
    private int poisoned;

    CudaFaults(
            Device device,
            Stream stream,
            CudaForward forward,
            KvPools pools,
            OutstandingSteps steps,
            Optional<HostTokenTracker> hostTokens) {
        this.device = device;
        this.stream = stream;
        this.forward = forward;
        this.pools = pools;
        this.steps = steps;
        this.hostTokens = hostTokens;
    }

    /** Sets how long steps may take. */
    void deadline(StepDeadline limit) {
        steps.deadline(limit);
    }

    /** Makes steps hang until the host aborts its tokens or the transfer kernel times out. */
    void hang() {
        device.makeCurrent();
        forward.hang(stream);
    }

    /** Fills both pools with NaN; they hold no sequence. */
    void poisonPools() {
        device.makeCurrent();
        stream.fill(pools.gpu(), -1);
        stream.synchronise();
        pools.poisonHost();
    }

    /** Turns KV of the next token that decodes on the GPU into NaN before its step. */
    void poisonNextRow() {
        poisons = true;
    }

    /** How many tokens' KV has been poisoned. */
    int poisonedRows() {
        return poisoned;
    }

    /**
     * Called before a step is submitted. Poisons only in steps without swaps: a block that a swap writes belongs to
     * another sequence until the swap has run.
     */
    void beforeStep(StepPlan plan) {
        if (poisons && plan.swaps().isEmpty()) {
            plan.subBatches().stream()
                    .map(SubBatch::chunks)
                    .flatMap(chunks -> chunks.stream())
                    .filter(CudaFaults::decodesOnGpu)
                    .findFirst()
                    .ifPresent(chunk -> {
                        pools.poison(stream, chunk.kv(0).blocks()[0]);
                        poisons = false;
                        poisoned++;
                    });
        }
    }

    private static boolean decodesOnGpu(Chunk chunk) {
        return chunk.site() == AttentionSite.GPU_FROM_GPU && chunk.rows() == 1 && chunk.start() > 0;
    }

    /** Offloads prefills by kernels, without the copy engine. */
    void offloadPrefillByKernels() {
        pools.prefillOffload().useKernels();
    }

    /** Ends the workers as if they had died. */
    void endWorkers() {
        hostTokens.ifPresent(HostTokenTracker::close);
    }
}
