package dev.tandem.cpu.topology;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.execute.ExecutorException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Threads that share loops. The caller of {@link #run} is worker 0; the others spin between loops while a step is
 * under way and park when none is. Indices are handed out one by one, so a slow core takes fewer.
 *
 * <p>Protocol: {@code remaining} is set to the count when a loop starts; whoever decrements a positive value owns that
 * index, and until it reports {@code finished} the loop's fields cannot change. Thus a late worker never mistakes one
 * loop for another.
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
    private final int[] cores;
    private final AtomicInteger remaining = new AtomicInteger();
    private final AtomicInteger finished = new AtomicInteger();
    private Body body;
    private int count;
    /** Workers from this one on leave the loop to the others. */
    private int busy;
    private volatile Throwable failure;
    private volatile boolean stepping;
    private volatile boolean closed;

    /** @param size workers, the caller included */
    public WorkerPool(int size, boolean pinned) {
        if (size < 1) {
            throw new ConfigurationException("a pool of " + size + " threads; --threads must be at least 1");
        }
        this.cores = ThreadAffinity.allowed().stream().toArray();
        this.pinned = pinned && size <= cores.length;
        this.threads = new Thread[size - 1];
        for (int i = 0; i < threads.length; i++) {
            int worker = i + 1;
            threads[i] = Thread.ofPlatform().daemon().name("tandem-worker-" + worker).start(() -> work(worker));
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
        if (pinned) {
            ThreadAffinity.pin(cores[0]);
        }
    }

    /** Wakes the workers: loops will follow closely. */
    public void beginStep() {
        stepping = true;
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
        if (threads.length == 0 || count <= 1 || workers == 1) {
            for (int i = 0; i < count; i++) {
                body.run(i, 0);
            }
            return;
        }
        this.body = body;
        this.count = count;
        this.busy = workers;
        finished.set(0);
        remaining.set(count);
        take(0);
        for (int spins = 0; finished.get() < count; spins++) {
            pause(spins);
        }
        this.body = null;
        Throwable problem = failure;
        if (problem != null) {
            failure = null;
            throw new ExecutorException("a worker failed: " + problem, problem);
        }
    }

    private void take(int worker) {
        while (remaining.get() > 0) {
            int ticket = remaining.getAndDecrement();
            if (ticket <= 0) {
                return;
            }
            try {
                body.run(count - ticket, worker);
            } catch (RuntimeException | Error e) {
                failure = e;
            } finally {
                finished.incrementAndGet();
            }
        }
    }

    private void work(int worker) {
        if (pinned) {
            ThreadAffinity.pin(cores[worker]);
        }
        int spins = 0;
        while (!closed) {
            if (remaining.get() > 0 && worker < busy) {
                take(worker);
                spins = 0;
            } else if (stepping) {
                pause(spins++);
            } else {
                LockSupport.park(this);
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
        for (Thread thread : threads) {
            LockSupport.unpark(thread);
        }
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
