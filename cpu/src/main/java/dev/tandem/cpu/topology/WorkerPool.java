package dev.tandem.cpu.topology;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.ExecutorException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Threads that share loops. The caller of {@link #run} is worker 0; the others spin between loops while a step is under
 * way and park when none is. Indices are handed out one by one, so a slow core takes fewer.
 *
 * <p>Protocol: {@code tickets} is set when a loop starts: how many workers take part, and how many indices are left.
 * Whoever takes one from it owns that index, and until it reports {@code finished} the loop's fields cannot change.
 * Both numbers are read and changed in one operation, so a late worker mistakes neither one loop for another nor its
 * part in it.
 *
 * <p>With a CPU quota, spinning uses up the time of those that compute: workers and the caller then park after a bound,
 * and are woken by the next loop and by the last index.
 *
 * <p>Owned by: the thread that calls {@link #run}, one at a time.
 */
public final class WorkerPool implements AutoCloseable {
    /** What one index does; {@code worker} is below {@link #size()} and names scratch memory. */
    public interface Body {
        void run(int index, int worker);
    }

    /** Some tens of microseconds, longer than an even loop's end and shorter than a time slice. */
    private static final int SPINS = 1000;

    private final Thread[] threads;
    private final boolean pinned;
    private final boolean limited;
    private final CpuTopology topology;
    /** Workers that take part in the loop, and 32 bits lower the indices that are left. */
    private final AtomicLong tickets = new AtomicLong();

    private final AtomicInteger finished = new AtomicInteger();
    private Body body;
    private int count;
    private volatile Throwable failure;
    private volatile boolean stepping;
    private volatile boolean closed;
    /** The caller of {@link #run} while it is parked. */
    private volatile Thread caller;

    /**
     * @param size workers, the caller included
     * @param pin whether each is bound to a core of its own where {@link CpuTopology#canPin} allows it
     */
    public WorkerPool(int size, boolean pin) {
        this(size, pin, CpuTopology.find());
    }

    WorkerPool(int size, boolean pin, CpuTopology topology) {
        if (size < 1) {
            throw new ConfigurationException("a pool of " + size + " threads; --threads must be at least 1");
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

    public int size() {
        return threads.length + 1;
    }

    /**
     * Binds the calling thread, worker 0, to its core. Threads it starts later inherit that, so only a thread that does
     * nothing but call {@link #run} should.
     */
    public void pinCaller() {
        pin(0);
    }

    private void pin(int worker) {
        if (pinned) {
            ThreadAffinity.pin(topology.order().get(worker));
        }
    }

    /** Wakes the workers: loops will follow closely. */
    public void beginStep() {
        stepping = true;
        wake();
    }

    private void wake() {
        for (Thread thread : threads) {
            LockSupport.unpark(thread);
        }
    }

    /** Lets the workers rest. */
    public void endStep() {
        stepping = false;
    }

    /**
     * Runs the body for every index below {@code count} and returns when all are done.
     *
     * @throws ExecutorException when one of them failed, after all have ended
     */
    public void run(int count, Body body) {
        run(count, size(), body);
    }

    /** Likewise, on the first {@code workers} of the pool alone. */
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
        this.body = null;
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

    /** Waits a moment; after some, offers the core to threads that have work, as the compiler's during a start. */
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
