package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.queue.WaitingQueue;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/**
 * Every live sequence, by where it stands, and the KV they hold: NEO's prefilling wait queue, GPU and CPU decoding run
 * queues (§3), and the in-flight tokens of async overlap.
 *
 * <p>Owned by: engine thread.
 */
public final class SchedulerState {
    /** Tokens that a sequence puts out, as long as none has ended. */
    private static final double SUPPOSED_OUTPUT = 200;
    /** Weight of the sequence that ended last. */
    private static final double NEWEST = 1.0 / 32;

    private final KvCache kv;
    private final WaitingQueue waiting = new WaitingQueue();
    private final TreeSet<Sequence> gpu = new TreeSet<>(WaitingQueue.ORDER);
    private final TreeSet<Sequence> host = new TreeSet<>(WaitingQueue.ORDER);
    private final Map<Long, Sequence> inFlight = new LinkedHashMap<>();
    private final List<Long> park = new ArrayList<>();
    private long steps;
    private long preemptions;
    private long now;
    private int scheduled;
    private double meanOutput = SUPPOSED_OUTPUT;
    private final OutputLengths outputs = new OutputLengths();
    private long ended;

    public SchedulerState(KvCache kv) {
        this.kv = kv;
    }

    public KvCache kv() {
        return kv;
    }

    public WaitingQueue waiting() {
        return waiting;
    }

    /** Sequences with KV in GPU blocks, those that deserve it most first. */
    public TreeSet<Sequence> gpu() {
        return gpu;
    }

    /** Sequences with KV in host blocks that are not in flight, those that deserve most first. */
    public TreeSet<Sequence> host() {
        return host;
    }

    /** Host tokens between layers. */
    public Collection<Sequence> inFlight() {
        return Collections.unmodifiableCollection(inFlight.values());
    }

    /** When the step began, as the loop's clock has it: planning reads no clock. */
    public long now() {
        return now;
    }

    public void now(long nanos) {
        now = nanos;
    }

    /** Steps that were planned so far. */
    public long steps() {
        return steps;
    }

    public long nextStep() {
        return steps++;
    }

    public long preemptions() {
        return preemptions;
    }

    void countPreemption() {
        preemptions++;
    }

    /** Sequences that the last step computed, those in flight included. */
    public int scheduled() {
        return scheduled;
    }

    void scheduled(int count) {
        scheduled = count;
    }

    /** Tokens that a sequence puts out: a mean of those that have ended by themselves, mostly of the last few dozen. */
    public double meanOutput() {
        return meanOutput;
    }

    /** Sequences that have put out something and ended. */
    public long ended() {
        return ended;
    }

    /** What sequences that have ended put out. */
    OutputLengths outputs() {
        return outputs;
    }

    public boolean isIdle() {
        return waiting.isEmpty() && gpu.isEmpty() && host.isEmpty() && inFlight.isEmpty();
    }

    /** A host token enters layer 0. */
    void enterInFlight(Sequence sequence) {
        host.remove(sequence);
        sequence.state(RequestState.IN_FLIGHT);
        inFlight.put(sequence.key(), sequence);
    }

    /**
     * The executor has let go of a in-flight token, because it was sampled or parked. A cancelled one is freed.
     *
     * @return the sequence, or null when it had been cancelled
     */
    public Sequence endInFlight(long key) {
        Sequence sequence = inFlight.remove(key);
        if (sequence == null) {
            throw new IllegalStateException("sequence " + key + " is not in flight");
        }
        if (sequence.state() instanceof RequestState.Finished) {
            kv.release(sequence);
            return null;
        }
        sequence.state(RequestState.ON_HOST);
        host.add(sequence);
        return sequence;
    }

    /**
     * The executor has let go of a in-flight token because it cannot go on.
     *
     * @param stillInUse whether its blocks may yet be written
     * @return the sequence, or null when it had been cancelled
     */
    public Sequence lose(long key, boolean stillInUse) {
        Sequence sequence = inFlight.remove(key);
        if (sequence == null) {
            throw new IllegalStateException("sequence " + key + " is not in flight");
        }
        park.remove(key);
        if (stillInUse) {
            quarantine(sequence);
        } else {
            kv.release(sequence);
        }
        return sequence.state() instanceof RequestState.Finished ? null : sequence;
    }

    /** The sequence's blocks may yet be written, so nobody is granted them again. It holds none from here on. */
    public void quarantine(Sequence sequence) {
        kv.quarantine(sequence);
        sequence.restart();
    }

    /** Whether the sequence is between layers. */
    public boolean isInFlight(long key) {
        return inFlight.containsKey(key);
    }

    /** In-flight tokens to park in the next step; the list is emptied. */
    List<Long> takePark() {
        List<Long> taken = List.copyOf(park);
        park.clear();
        return taken;
    }

    /** Puts a sequence where its blocks are. */
    void settle(Sequence sequence) {
        boolean onGpu = sequence.table().tier() == KvTier.GPU;
        (onGpu ? gpu : host).add(sequence);
        sequence.state(onGpu ? RequestState.ON_GPU : RequestState.ON_HOST);
        sequence.enteredTier(now);
    }

    /**
     * Takes a sequence out of whatever holds it and frees its blocks. The blocks of a in-flight token are the
     * executor's: it is marked, parked by the next step, and freed when that is reported.
     */
    public void remove(Sequence sequence) {
        if (inFlight.containsKey(sequence.key())) {
            park.add(sequence.key());
            return;
        }
        if (sequence.outputLength() > 0) {
            ended++;
        }
        if (sequence.outputLength() > 0 && !isAborted(sequence)) {
            meanOutput += NEWEST * (sequence.outputLength() - meanOutput);
            outputs.ended(sequence.outputLength());
        }
        waiting.remove(sequence);
        gpu.remove(sequence);
        host.remove(sequence);
        kv.release(sequence);
    }

    /** How long an aborted sequence was says nothing about how long others become. */
    private static boolean isAborted(Sequence sequence) {
        return sequence.state() instanceof RequestState.Finished(FinishReason reason) && reason == FinishReason.ABORT;
    }

    /** The executor is gone: no sequence is left, and all blocks are free that are not quarantined. */
    public void abandon() {
        live().forEach(kv::release);
        List.copyOf(waiting.view()).forEach(waiting::remove);
        gpu.clear();
        host.clear();
        inFlight.clear();
        park.clear();
    }

    /** All sequences that hold blocks or wait for some. */
    public Collection<Sequence> live() {
        List<Sequence> all = new ArrayList<>(waiting.view());
        all.addAll(gpu);
        all.addAll(host);
        all.addAll(inFlight.values());
        return all;
    }
}
