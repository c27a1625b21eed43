package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvCapacity;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.queue.WaitingQueue;
import dev.tandem.engine.queue.WaitingView;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Optional;
import java.util.TreeSet;

/**
 * All live sequences by where they stand, and the room in the KV tiers. Strategies read it; only {@link PlanCommitter}
 * changes it.
 *
 * <p>The collections are NEO's prefill waiting queue, GPU and CPU decoding run queues (§3), and the in-flight tokens of
 * async overlap.
 *
 * <p>Owned by: engine thread.
 */
public final class SchedulerState {
    /** Tokens that a sequence is expected to generate before any has ended. */
    private static final double INITIAL_OUTPUT = 200;
    /** Weight of the sequence that ended last in {@link #meanOutput}. */
    private static final double NEWEST_WEIGHT = 1.0 / 32;

    private final KvCache kv;
    private final CopyRule copies;
    private final WaitingQueue waiting = new WaitingQueue();
    private final TreeSet<Sequence> gpu = new TreeSet<>(WaitingQueue.ORDER);
    private final TreeSet<Sequence> host = new TreeSet<>(WaitingQueue.ORDER);
    private final Map<Long, Sequence> inFlight = new LinkedHashMap<>();
    private final NavigableSet<Sequence> gpuView = Collections.unmodifiableNavigableSet(gpu);
    private final NavigableSet<Sequence> hostView = Collections.unmodifiableNavigableSet(host);
    private final Collection<Sequence> inFlightView = Collections.unmodifiableCollection(inFlight.values());
    private final List<Long> pausing = new ArrayList<>();
    private final OutputLengths outputs = new OutputLengths();
    private long steps;
    private long preemptions;
    private long copiedToGpu;
    private long copiedToHost;
    private long now;
    private int scheduled;
    private double meanOutput = INITIAL_OUTPUT;
    private long ended;

    /** Creates a state without sequences, in which cached prefixes are always copied. */
    public SchedulerState(KvCache kv) {
        this(kv, CopyRule.ALWAYS);
    }

    /** Creates a state without sequences. */
    public SchedulerState(KvCache kv, CopyRule copies) {
        this.kv = kv;
        this.copies = copies;
    }

    /** Whether cached prefixes are copied between the tiers. */
    public CopyRule copies() {
        return copies;
    }

    /** Block sizes and free blocks of both tiers. */
    public KvCapacity kv() {
        return kv;
    }

    /** The cache itself, for the committer. */
    KvCache cache() {
        return kv;
    }

    /** Tokens that the sequence's last token attends to, as a mean over the layers. */
    public int context(Sequence sequence) {
        return kv.span().tokens(sequence.length());
    }

    /** Computed tokens whose KV the sequence holds, so those that are copied when it is moved; a mean over layers. */
    public int heldTokens(Sequence sequence) {
        return kv.layout().heldTokens(sequence.computed());
    }

    /** Sequences without KV. */
    public WaitingView waiting() {
        return waiting;
    }

    /** The waiting queue itself, for the committer. */
    WaitingQueue queue() {
        return waiting;
    }

    /** Sequences with KV in GPU blocks, in the order in which they should run; unmodifiable. */
    public NavigableSet<Sequence> gpu() {
        return gpuView;
    }

    /** Sequences with KV in host blocks that are not in flight, in the order in which they should run; unmodifiable. */
    public NavigableSet<Sequence> host() {
        return hostView;
    }

    /**
     * Sequences whose offloaded token is between two layers, in the order in which they were admitted; unmodifiable.
     */
    public Collection<Sequence> inFlight() {
        return inFlightView;
    }

    /** The sequences of {@link #inFlight} in the order of the waiting queue. */
    public List<Sequence> inFlightInQueueOrder() {
        return inFlight.values().stream().sorted(WaitingQueue.ORDER).toList();
    }

    /** True while the sequence's token is between two layers. */
    public boolean isInFlight(long key) {
        return inFlight.containsKey(key);
    }

    /** When planning of the step began, by the loop's clock; planning reads no clock. */
    public long now() {
        return now;
    }

    /** Steps planned so far. */
    public long steps() {
        return steps;
    }

    /** Times that a sequence lost its blocks to others. */
    public long preemptions() {
        return preemptions;
    }

    /**
     * Tokens whose KV plans have copied to a tier from the other one. A token counts once for each group of layers in
     * which it was copied.
     */
    public long copiedTokens(KvTier to) {
        return switch (to) {
            case GPU -> copiedToGpu;
            case HOST -> copiedToHost;
        };
    }

    /** Sequences that the last step computed, in-flight ones and those that wait for a bitmask included. */
    public int scheduled() {
        return scheduled;
    }

    /** Expected output tokens per sequence: a moving mean over sequences that ended by themselves, weight 1/32 each. */
    public double meanOutput() {
        return meanOutput;
    }

    /** Mean output of the last sequences that ended by themselves, some hundred; steadier than {@link #meanOutput}. */
    public double meanLastOutputs() {
        double mean = outputs.remaining(0);
        return mean > 0 ? mean : meanOutput;
    }

    /** Whether enough sequences have ended by themselves for {@link #meanLastOutputs} to be their mean. */
    public boolean outputsKnown() {
        return outputs.remaining(0) > 0;
    }

    /** Sequences that have ended with at least one output token. */
    public long ended() {
        return ended;
    }

    /** Output lengths of sequences that ended by themselves. */
    OutputLengths outputs() {
        return outputs;
    }

    /** True when no sequence is live. */
    public boolean isIdle() {
        return waiting.isEmpty() && gpu.isEmpty() && host.isEmpty() && inFlight.isEmpty();
    }

    /** All sequences that hold blocks or wait for some. */
    public Collection<Sequence> live() {
        List<Sequence> all = new ArrayList<>(waiting.view());
        all.addAll(gpu);
        all.addAll(host);
        all.addAll(inFlight.values());
        return all;
    }

    /**
     * Checks that every block is free or owned by exactly one live sequence; for tests and idle moments.
     *
     * @throws IllegalStateException that names the block and the owner
     */
    public void checkIntegrity() {
        kv.checkIntegrity(live());
    }

    void now(long nanos) {
        now = nanos;
    }

    long nextStep() {
        return steps++;
    }

    void countPreemption() {
        preemptions++;
    }

    void countCopied(KvTier to, int tokens) {
        switch (to) {
            case GPU -> copiedToGpu += tokens;
            case HOST -> copiedToHost += tokens;
        }
    }

    void scheduled(int count) {
        scheduled = count;
    }

    /** Files a sequence under the tier of its blocks. */
    void settle(Sequence sequence) {
        boolean onGpu = sequence.table().tier() == KvTier.GPU;
        (onGpu ? gpu : host).add(sequence);
        sequence.state(onGpu ? RequestState.ON_GPU : RequestState.ON_HOST);
        sequence.enteredTier(now);
        sequence.moved(Optional.of(sequence.table().tier()), now);
    }

    /** Removes a sequence that is not in flight from the collection that holds it. */
    void unsettle(Sequence sequence) {
        waiting.remove(sequence);
        gpu.remove(sequence);
        host.remove(sequence);
    }

    /** Files a host sequence as in flight: its token enters layer 0. */
    void enterInFlight(Sequence sequence) {
        host.remove(sequence);
        sequence.state(RequestState.IN_FLIGHT);
        inFlight.put(sequence.key(), sequence);
    }

    /** Removes an in-flight sequence and returns it. */
    Sequence leaveInFlight(long key) {
        Sequence sequence = inFlight.remove(key);
        if (sequence == null) {
            throw new IllegalStateException("sequence " + key + " is not in flight");
        }
        pausing.remove(key);
        return sequence;
    }

    /** Files a sequence that has left flight under the host tier. */
    void returnToHost(Sequence sequence) {
        sequence.state(RequestState.ON_HOST);
        host.add(sequence);
    }

    /** Has the next step pause an in-flight token. */
    void pause(Sequence sequence) {
        pausing.add(sequence.key());
    }

    /** In-flight tokens that the next step pauses; the list is emptied. */
    List<Long> takePausing() {
        if (pausing.isEmpty()) {
            return List.of();
        }
        List<Long> taken = List.copyOf(pausing);
        pausing.clear();
        return taken;
    }

    /** Counts the output of a sequence that has ended with at least one token. */
    void countEnded(int outputTokens, boolean aborted) {
        ended++;
        if (!aborted) { // the length of an aborted output says nothing about others
            meanOutput += NEWEST_WEIGHT * (outputTokens - meanOutput);
            outputs.ended(outputTokens);
        }
    }

    void clear() {
        List.copyOf(waiting.view()).forEach(waiting::remove);
        gpu.clear();
        host.clear();
        inFlight.clear();
        pausing.clear();
    }
}
