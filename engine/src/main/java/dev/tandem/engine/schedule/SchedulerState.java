package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.queue.WaitingQueue;
import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.TreeSet;

/**
 * Every live sequence, by where it stands, and the KV they hold.
 *
 * <p>Owned by: engine thread.
 */
public final class SchedulerState {
    private final KvCache kv;
    private final WaitingQueue waiting = new WaitingQueue();
    private final TreeSet<Sequence> running = new TreeSet<>(WaitingQueue.ORDER);
    private final TreeSet<Sequence> swapped = new TreeSet<>(WaitingQueue.ORDER);
    private long steps;
    private long preemptions;

    public SchedulerState(KvCache kv) {
        this.kv = kv;
    }

    public KvCache kv() {
        return kv;
    }

    public WaitingQueue waiting() {
        return waiting;
    }

    /** Sequences with KV that take part in steps, those that deserve it most first. */
    public TreeSet<Sequence> running() {
        return running;
    }

    /** Sequences whose KV waits in host memory. */
    public TreeSet<Sequence> swapped() {
        return swapped;
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

    public boolean isIdle() {
        return waiting.isEmpty() && running.isEmpty() && swapped.isEmpty();
    }

    /** Takes a sequence out of whatever holds it and frees its blocks. */
    public void remove(Sequence sequence) {
        waiting.remove(sequence);
        running.remove(sequence);
        swapped.remove(sequence);
        kv.release(sequence);
    }

    /** All live sequences. */
    public Collection<Sequence> live() {
        List<Sequence> all = new ArrayList<>(waiting.view());
        all.addAll(running);
        all.addAll(swapped);
        return all;
    }
}
