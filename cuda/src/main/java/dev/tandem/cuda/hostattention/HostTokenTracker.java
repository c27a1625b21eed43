package dev.tandem.cuda.hostattention;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.CpuTasks;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The engine thread's view of the host tokens: which enter, which have passed all layers, and which the workers
 * released or lost.
 *
 * <p>Owned by: engine thread.
 */
public final class HostTokenTracker implements AutoCloseable {
    /** The workers are well, so the tasks have not reached them. */
    public static final String RESULT_TIMEOUT =
            "a step waited for its host tokens' attention on the CPU for longer than twice --host-watchdog";

    static final String STEP_HANGS =
            "a step did not end, so no kernel transfers host tokens between GPU and CPU any more";

    /** Layers by which a token may have moved beyond the last that a worker has seen, when the next step ends. */
    private static final int LAYERS_UNSEEN = 2;

    private final HostAttentionQueues queues;
    private final HostAttentionWorkers workers;
    /** Failures of same-layer tokens whose step still runs; the GPU uses their indices until it ends. */
    private final List<HostAttentionQueues.Failure> early = new ArrayList<>();

    private long busyBefore;
    private long spanBefore;
    private CpuTasks tasksBefore = CpuTasks.NONE;
    /** Why steps do not wait any more; their host tokens have no results. */
    private Optional<String> abortCause = Optional.empty();

    /** Takes a sampled row's token, or records that its sequence is lost. */
    public interface Chooser {
        void choose(long sequence, TokenSampler sampler, Optional<TokenSampler.Draw> draw, int sampledRow);
    }

    /**
     * An in-flight token that the next step takes through all remaining layers.
     *
     * @param earliestLayer the token stands there or at a later layer
     */
    public record Resumed(HostToken hostToken, int earliestLayer) {}

    public HostTokenTracker(HostAttentionQueues queues, HostAttentionWorkers workers) {
        this.queues = queues;
        this.workers = workers;
    }

    public HostAttentionQueues queues() {
        return queues;
    }

    public HostAttentionWorkers workers() {
        return workers;
    }

    /** Registers the in-flight tokens that enter layer 0 in the next step. */
    public List<HostToken> admit(List<Admission> admissions) {
        List<HostToken> admitted = new ArrayList<>(admissions.size());
        for (Admission admission : admissions) {
            admitted.add(queues.admit(admission));
        }
        if (!admitted.isEmpty()) {
            workers.wake();
        }
        return admitted;
    }

    /**
     * Has the next step take in-flight tokens through all remaining layers.
     *
     * @param sequences those of the plan
     * @return those with most layers left first; without tokens that are paused, have failed or have passed all layers
     */
    public List<Resumed> resume(List<Long> sequences) {
        List<Resumed> resumed = new ArrayList<>(sequences.size());
        for (long sequence : sequences) {
            queues.resume(sequence)
                    .ifPresent(hostToken -> resumed.add(new Resumed(hostToken, hostToken.earliestLayer())));
        }
        resumed.sort(Comparator.comparingInt(Resumed::earliestLayer));
        return resumed;
    }

    /**
     * How many in-flight tokens may return at each layer in the next step [layers]. A token may return at any of
     * several layers: when the step is submitted, it may have reached the layer after the last that a worker has seen,
     * and the step before may still move it by one more.
     */
    public List<Integer> returning(int layers) {
        int[] tokens = new int[layers];
        for (HostToken hostToken : queues.inFlight()) {
            int first = hostToken.earliestLayer();
            for (int layer = first; layer <= Math.min(first + LAYERS_UNSEEN, layers - 1); layer++) {
                tokens[layer]++;
            }
        }
        return Arrays.stream(tokens).boxed().toList();
    }

    /** Registers a same-layer token of the next step. */
    public HostToken admitSameLayer(Admission admission) {
        boolean idle = !queues.hasTokens();
        HostToken hostToken = queues.admitSameLayer(admission);
        if (idle) {
            workers.wake();
        }
        return hostToken;
    }

    /** Called while a step waits: makes it stop when a worker has died or is stalled. */
    public void watch() {
        if (abortCause.isEmpty()) {
            trouble().ifPresent(trouble -> queues.abort());
        }
    }

    private Optional<String> trouble() {
        if (abortCause.isEmpty()) {
            abortCause = workers.check()
                    .or(() -> queues.isAborted()
                            ? Optional.of(queues.isAbortedByTransfer() ? STEP_HANGS : RESULT_TIMEOUT)
                            : Optional.empty());
        }
        return abortCause;
    }

    /**
     * Ends the same-layer tokens of a step that has ended, unless {@link #collectReleased} has reported them as lost.
     */
    public void endSameLayer(List<HostToken> sameLayer) {
        sameLayer.stream()
                .filter(hostToken -> queues.hostToken(hostToken.index) == hostToken)
                .forEach(queues::end);
    }

    /**
     * Samples the in-flight tokens that have passed the last layer.
     *
     * @param returned [slots] host token indices or -1, as the step reported
     * @param firstSample sampled row of the first slot
     * @param paused receives tokens that the engine has paused, which are not sampled
     */
    public void finishLastLayer(
            MemorySegment returned, int slots, int firstSample, Chooser chooser, List<Long> paused) {
        for (int slot = 0; slot < slots; slot++) {
            int index = returned.getAtIndex(JAVA_INT, slot);
            HostToken hostToken = index < 0 ? null : queues.hostToken(index);
            if (hostToken == null) {
                continue; // an empty slot, or a token that was lost before the last layer
            }
            if (hostToken.isWrong()) {
                continue; // collectReleased reports it as lost
            }
            if (hostToken.isPaused()) {
                paused.add(hostToken.sequence());
                hostToken.takeBackDraw();
            } else {
                chooser.choose(hostToken.sequence(), hostToken.admission.sampler(), hostToken.draw, firstSample + slot);
            }
            queues.end(hostToken);
        }
    }

    /**
     * Collects the tokens that workers released or lost. When a worker has died or is stalled, every host token is
     * lost. So is every token that enters later, from a plan made before the failure was known.
     *
     * @param sameLayer same-layer tokens of the step that has ended
     */
    public void collectReleased(List<HostToken> sameLayer, List<Long> paused, List<StepResult.Lost> lost) {
        for (HostToken hostToken = queues.pollReleased(); hostToken != null; hostToken = queues.pollReleased()) {
            paused.add(hostToken.sequence());
            hostToken.takeBackDraw();
            queues.end(hostToken);
        }
        List<HostAttentionQueues.Failure> failures = new ArrayList<>(early);
        early.clear();
        for (HostAttentionQueues.Failure failure = queues.pollFailure();
                failure != null;
                failure = queues.pollFailure()) {
            failures.add(failure);
        }
        for (HostAttentionQueues.Failure failure : failures) {
            if (queues.hostToken(failure.hostToken().index) != failure.hostToken()) {
                continue; // another subtask of it failed before
            }
            if (failure.hostToken().isSameLayer() && !sameLayer.contains(failure.hostToken())) {
                early.add(failure);
                continue;
            }
            lost.add(new StepResult.Lost(
                    failure.hostToken().sequence(),
                    StepResult.Cause.HOST_ATTENTION,
                    "its attention on the CPU failed: " + failure.cause(),
                    false));
            queues.end(failure.hostToken());
        }
        if (!queues.hasTokens()) {
            return;
        }
        trouble().ifPresent(trouble -> {
            queues.abort();
            List<HostToken> all = queues.all();
            all.forEach(queues::end);
            Set<HostToken> held = workers.held(); // after their end: a worker that takes one now sees that it is lost
            Map<Long, Boolean> heldBySequence = new LinkedHashMap<>();
            all.forEach(token -> heldBySequence.merge(token.sequence(), held.contains(token), Boolean::logicalOr));
            heldBySequence.forEach((sequence, isHeld) ->
                    lost.add(new StepResult.Lost(sequence, StepResult.Cause.HOST_ATTENTION, trouble, isHeld)));
        });
    }

    /**
     * How long the workers were busy since the last call, and how long sub-batches were attended for. The GPU
     * components of a step are not timed, because that would lengthen the step.
     *
     * @param hostWait nanoseconds that the step waited for host tokens
     */
    public StepTimes times(long hostWait) {
        long busy = workers.busyNanos();
        long since = busy - busyBefore;
        busyBefore = busy;
        long span = queues.spanNanos();
        long sameLayer = span - spanBefore;
        spanBefore = span;
        return StepTimes.ofHost(since, sameLayer, hostWait);
    }

    /** The tasks that the workers ended since the last call. */
    public CpuTasks tasks() {
        CpuTasks all = new CpuTasks(workers.tasks(), workers.tokens());
        CpuTasks since = all.since(tasksBefore);
        tasksBefore = all;
        return since;
    }

    /** Makes the kernels end that wait for the CPU or transfer host tokens. */
    public void abort() {
        queues.abort();
    }

    @Override
    public void close() {
        workers.close();
    }
}
