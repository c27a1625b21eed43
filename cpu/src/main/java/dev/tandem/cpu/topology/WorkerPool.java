package dev.tandem.cpu.topology;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.ExecutorException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * A pool of threads that share the iterations of a loop. The caller of {@link #run} is worker 0. The other workers spin
 * between the loops of a step and park between steps. Indices are handed out one by one, so a slow core takes fewer.
 *
 * <pre>
 * field            written by                         read by                   ordering
 * body, count      caller, before tickets             worker, after a ticket    volatile tickets
 * tickets          caller: starts a loop              all workers               compare-and-set: one owner per index
 *                  worker: takes an index
 * finished         worker: an index is done           caller: awaits count      volatile
 * failure          worker: an index has failed        caller, after the loop    volatile, before finished
 * caller           caller, before it parks            worker of the last index  volatile; then finished once more
 * stepping         caller                             workers: park or spin     volatile, then unpark
 * </pre>
 *
 * <p>{@code tickets} holds two numbers in one word: how many workers take part in the loop, and how many indices are
 * left. A worker that has taken an index owns it, and the caller cannot start another loop until that index is
 * {@code finished}. One operation reads and changes both numbers, so a worker that is late can neither take an index of
 * another loop by mistake nor join a loop that is not for it.
 *
 * <p>With a CPU quota ({@code limited}), a spinning thread uses up the time of those that compute. Workers and the
 * caller then park after {@link #SPINS} spins. The next loop wakes the workers, and the last index wakes the caller.
 *
 * <p>Here the caller starts each loop and waits for its end, so it can wake the workers whenever there is work. The
 * attention workers beside a GPU have a protocol of their own, because the GPU writes their tasks and can wake nobody.
 *
 * <p>Owned by: the thread that calls {@link #run}; one thread at a time.
 */
public final class WorkerPool implements AutoCloseable {
    /** A loop's body for one index; {@code worker}, below {@link #size()}, selects the scratch memory. */
    public interface Body {
        void run(int index, int worker);
    }

    /** Some tens of microseconds: longer than workers differ at a loop's end, and shorter than a time slice. */
    private static final int SPINS = 1000;

    /** The body between two loops; no worker runs it. */
    private static final Body NOTHING = (index, worker) -> {};

    private final Thread[] threads;
    private final boolean pinned;
    private final boolean limited;
    private final CpuTopology topology;
    /** Upper 32 bits: workers that take part in the loop. Lower 32 bits: indices that are left. */
    private final AtomicLong tickets = new AtomicLong();

    private final AtomicInteger finished = new AtomicInteger();
    private Body body = NOTHING;
    private int count;
    private volatile @Nullable Throwable failure;
    private volatile boolean stepping;
    private volatile boolean closed;
    /** The caller of {@link #run} while it is parked; null otherwise. */
    private volatile @Nullable Thread caller;

    /**
     * Starts {@code size - 1} threads.
     *
     * @param size workers, the caller included
     * @param pin whether to bind each worker to a core of its own, where {@link CpuTopology#canPin} allows it
     */
    public WorkerPool(int size, boolean pin) {
        this(size, pin, CpuTopology.find());
    }

    WorkerPool(int size, boolean pin, CpuTopology topology) {
        if (size < 1) {
            throw new ConfigurationException(
                    "a pool of " + size + " threads cannot compute; --threads must be at least 1");
        }
        this.topology = topology;
        this.pinned = pin && topology.canPin(size);
        this.limited = topology.limited();
        this.threads = new Thread[size - 1];
        for (int i = 0; i < threads.length; i++) {
            int worker = i + 1;
            threads[i] =
                    Thread.ofPlatform().daemon().name("tandem-worker-" + worker).start(() -> work(worker));
        }
    }

    /** The number of workers, the caller included. */
    public int size() {
        return threads.length + 1;
    }

    /**
     * Binds the calling thread, worker 0, to its core. Threads that it starts later inherit the binding, so only a
     * thread that does nothing but call {@link #run} should be bound.
     */
    public void pinCaller() {
        pin(0);
    }

    private void pin(int worker) {
        if (pinned) {
            ThreadAffinity.pin(topology.order().get(worker));
        }
    }

    /** Wakes the workers and lets them spin between loops until {@link #endStep}. */
    public void beginStep() {
        stepping = true;
        wake();
    }

    private void wake() {
        for (Thread thread : threads) {
            LockSupport.unpark(thread);
        }
    }

    /** Lets the workers park once they have nothing to do. */
    public void endStep() {
        stepping = false;
    }

    /**
     * Runs the body for every index below {@code count} on all workers, and returns when all are done.
     *
     * @throws ExecutorException if the body threw for an index; all other indices have been run
     */
    public void run(int count, Body body) {
        run(count, size(), body);
    }

    /** As {@link #run(int, Body)}, on the pool's first {@code workers} workers only. */
    public void run(int count, int workers, Body body) {
        this.body = body;
        this.count = count;
        finished.set(0);
        if (threads.length == 0 || count <= 1 || workers == 1) {
            for (int i = 0; i < count; i++) {
                runIndex(i, 0);
            }
        } else {
            tickets.set((long) workers << 32 | count);
            if (limited) {
                wake();
            }
            take(0);
            awaitOthers();
        }
        this.body = NOTHING;
        Throwable problem = failure;
        if (problem != null) {
            failure = null;
            throw new ExecutorException("a worker failed: " + problem, problem);
        }
    }

    private void awaitOthers() {
        for (int spins = 0; finished.get() < count; spins++) {
            if (limited && spins >= SPINS) {
                caller = Thread.currentThread();
                if (finished.get() < count) {
                    LockSupport.park(this);
                }
                caller = null;
            } else {
                pause(spins);
            }
        }
    }

    private void take(int worker) {
        for (long state = tickets.get(); isFor(worker, state); state = tickets.get()) {
            if (tickets.compareAndSet(state, state - 1)) {
                int all = count;
                runIndex(all - (int) state, worker);
                if (finished.incrementAndGet() == all) {
                    LockSupport.unpark(caller);
                }
            }
        }
    }

    private static boolean isFor(int worker, long state) {
        return (int) state > 0 && worker < (int) (state >>> 32);
    }

    private void runIndex(int index, int worker) {
        try {
            body.run(index, worker);
        } catch (RuntimeException | Error e) {
            failure = e;
        }
    }

    private void work(int worker) {
        pin(worker);
        int spins = 0;
        while (!closed) {
            if (isFor(worker, tickets.get())) {
                take(worker);
                spins = 0;
            } else if (!stepping || limited && spins >= SPINS) {
                LockSupport.park(this);
                spins = 0;
            } else {
                pause(spins++);
            }
        }
    }

    /**
     * Spins once; after {@link #SPINS} spins yields the core to other threads, such as the JIT compiler's at start-up.
     */
    @SuppressWarnings("ThreadPriorityCheck") // the yield is for speed only
    private static void pause(int spins) {
        if (spins < SPINS) {
            Thread.onSpinWait();
        } else {
            Thread.yield();
        }
    }

    @Override
    public void close() {
        closed = true;
        wake();
        boolean interrupted = false;
        for (Thread thread : threads) {
            while (thread.isAlive()) {
                try {
                    thread.join();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
