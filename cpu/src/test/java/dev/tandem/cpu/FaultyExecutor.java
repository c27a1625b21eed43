package dev.tandem.cpu;

import dev.tandem.cpu.attention.KvStore;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.SubBatch;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * A CPU executor with an injected fault, which reports what its plans contain.
 *
 * <p>Owned by: engine thread.
 */
final class FaultyExecutor implements Executor {
    /** The fault of the executor itself, at a given step. */
    enum Fault {
        NONE,
        /** The attention of an in-flight token fails; the worker is done with its blocks. */
        HOST_TOKEN_FAILS,
        /** The attention of an in-flight token never ends; the worker may still write its blocks. */
        HOST_TOKEN_STALLS,
        /** A step exceeds its deadline. */
        STEP_HANGS,
        /** The device refuses a step. */
        DEVICE_FAILS
    }

    /** What a plan may contain and what may happen to in-flight tokens; a soak must see each of them. */
    enum Seen {
        PREFILL,
        GPU_DECODE,
        HOST_DECODE,
        LINK_DECODE,
        PREFILL_INTO_HOST,
        TWO_SUB_BATCHES,
        SWAP_TO_HOST,
        SWAP_TO_GPU,
        ADMISSION,
        IN_FLIGHT_ACROSS_STEPS,
        PARK,
        RESUME,
        DAMAGED_GPU_BLOCK,
        DAMAGED_HOST_BLOCK
    }

    /** The KV of prompts that begin with this token is damaged once they decode. */
    static final int MARKER = 300;
    /** The deadline of the hung step; short, because the test waits for it. */
    private static final long DEADLINE_MILLIS = 20;

    private final CpuExecutor real;
    private final Fault fault;
    private final int faultAtStep;
    private final SplittableRandom random;
    private final Consumer<Seen> seen;
    private final Set<Long> marked = new HashSet<>();
    private final Set<Long> inFlight = new HashSet<>();
    private final Set<Long> stalled = new HashSet<>();
    private int steps;
    private boolean done;

    FaultyExecutor(CpuExecutor real, Fault fault, int faultAtStep, SplittableRandom random, Consumer<Seen> seen) {
        this.real = real;
        this.fault = fault;
        this.faultAtStep = faultAtStep;
        this.random = random;
        this.seen = seen;
    }

    /** Whether the executor's fault has happened. */
    boolean isDone() {
        return done;
    }

    @Override
    public ExecutorLimits limits() {
        return real.limits();
    }

    @Override
    public boolean computesInSubmit() {
        return real.computesInSubmit();
    }

    @Override
    public void submit(StepPlan plan) {
        steps++;
        if (fault == Fault.DEVICE_FAILS && steps >= faultAtStep) {
            done = true;
            throw new ExecutorException("the device failed in step " + steps);
        }
        recordContent(plan);
        damage(plan);
        real.submit(plan);
    }

    private void recordContent(StepPlan plan) {
        for (Swap swap : plan.swaps()) {
            seen.accept(swap.to() == KvTier.HOST ? Seen.SWAP_TO_HOST : Seen.SWAP_TO_GPU);
        }
        if (plan.subBatches().size() == 2) {
            seen.accept(Seen.TWO_SUB_BATCHES);
        }
        for (SubBatch batch : plan.subBatches()) {
            batch.chunks().forEach(chunk -> seen.accept(kind(chunk)));
        }
        if (!plan.admissions().isEmpty()) {
            seen.accept(Seen.ADMISSION);
        }
        if (!inFlight.isEmpty()) {
            seen.accept(Seen.IN_FLIGHT_ACROSS_STEPS);
        }
        if (!plan.pause().isEmpty()) {
            seen.accept(Seen.PARK);
        }
        if (!plan.resume().isEmpty()) {
            seen.accept(Seen.RESUME);
        }
        plan.admissions().forEach(admission -> inFlight.add(admission.sequence()));
    }

    private static Seen kind(Chunk chunk) {
        if (chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD) {
            return Seen.PREFILL_INTO_HOST;
        }
        if (!chunk.decodes()) {
            return Seen.PREFILL;
        }
        return switch (chunk.site()) {
            case GPU_FROM_GPU -> Seen.GPU_DECODE;
            case CPU_FROM_HOST -> Seen.HOST_DECODE;
            case GPU_FROM_HOST -> Seen.LINK_DECODE;
            case GPU_PREFILL_OFFLOAD ->
                throw new IllegalStateException("a prefill is offloaded in steps that do not decode");
        };
    }

    /**
     * Sometimes overwrites K and V of a marked sequence's first token with NaN or infinity, so that its next logits are
     * NaN.
     *
     * <p>Blocks that this step's swaps write are not damaged: until the swaps have run, such a block still belongs to a
     * sequence that leaves it in the same step.
     */
    private void damage(StepPlan plan) {
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                if (chunk.start() == 0 && chunk.tokens()[0] == MARKER) {
                    marked.add(chunk.sequence());
                } else if (chunk.decodes() && marked.contains(chunk.sequence()) && random.nextInt(3) == 0) {
                    damage(plan, chunk.site().tier(), chunk.kv(0).blocks()[0]);
                }
            }
        }
        for (Admission admission : plan.admissions()) {
            if (marked.contains(admission.sequence()) && random.nextInt(3) == 0) {
                damage(plan, KvTier.HOST, admission.kv(0).blocks()[0]);
            }
        }
    }

    private void damage(StepPlan plan, KvTier tier, int block) {
        boolean moves = plan.swaps().stream()
                .anyMatch(swap ->
                        swap.to() == tier && Arrays.stream(swap.toBlocks()).anyMatch(to -> to == block));
        if (moves) {
            return;
        }
        KvStore store = real.store(tier);
        float[] wrong = new float[store.headDim()];
        Arrays.fill(wrong, random.nextBoolean() ? Float.NaN : Float.POSITIVE_INFINITY);
        int ofPage = random.nextInt(limits().layers() / limits().layout().groups());
        store.append(ofPage, block, 0, random.nextInt(store.kvHeads()), wrong, 0, wrong, 0);
        seen.accept(tier == KvTier.GPU ? Seen.DAMAGED_GPU_BLOCK : Seen.DAMAGED_HOST_BLOCK);
    }

    @Override
    public StepResult poll() {
        if (fault == Fault.STEP_HANGS && steps >= faultAtStep) {
            done = true;
            hang();
            throw new ExecutorException("step " + steps + " did not end within " + DEADLINE_MILLIS + " ms");
        }
        StepResult result = real.poll();
        boolean due = !done && steps >= faultAtStep;
        List<StepResult.Sampled> sampled = new ArrayList<>();
        List<StepResult.Lost> lost = new ArrayList<>(result.lost());
        for (StepResult.Sampled each : result.sampled()) {
            long key = each.sequence();
            boolean wasInFlight = inFlight.remove(key);
            if (stalled.contains(key)) {
                continue; // the engine was told that this sequence is lost
            }
            if (fault == Fault.HOST_TOKEN_FAILS && due && wasInFlight && !done) {
                done = true;
                lost.add(new StepResult.Lost(
                        key, StepResult.Cause.HOST_ATTENTION, "its attention on the CPU failed: injected", false));
            } else {
                sampled.add(each);
            }
        }
        result.lost().forEach(each -> inFlight.remove(each.sequence()));
        List<Long> parked = new ArrayList<>(result.paused());
        inFlight.removeAll(parked);
        parked.removeAll(stalled);
        if (fault == Fault.HOST_TOKEN_STALLS && due && !done && !inFlight.isEmpty()) {
            done = true;
            long key = inFlight.iterator().next();
            inFlight.remove(key);
            stalled.add(key);
            lost.add(new StepResult.Lost(
                    key, StepResult.Cause.HOST_ATTENTION, "its attention on the CPU stalled: injected", true));
        }
        return new StepResult(result.step(), sampled, result.trace(), parked, lost, result.times());
    }

    private static void hang() {
        try {
            new CountDownLatch(1).await(DEADLINE_MILLIS, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        real.close();
    }
}
