package dev.tandem.cuda.hostattention;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeTask;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.decode.Partial;
import java.lang.foreign.Arena;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongConsumer;

/** Decode attention that throws, stalls or pauses when a test says so. */
public final class UnreliableAttention implements PagedDecodeAttention {
    private static final long PAUSE_NANOS = 2_000_000;

    private final PagedDecodeAttention real;
    private final AtomicLong tasks = new AtomicLong();
    /** Throws for a context of this many tokens; negative for never. */
    public volatile int poisoned = -1;
    /** Whether one task waits until {@link #release}. */
    public volatile boolean stalls;
    /** Every n-th task takes two milliseconds longer; 0 for none. */
    public volatile int pauses;
    /** Receives the prefetch address of each call. */
    volatile LongConsumer next = address -> {};

    public final CountDownLatch stuck = new CountDownLatch(1);
    public final CountDownLatch release = new CountDownLatch(1);

    public UnreliableAttention(PagedDecodeAttention real) {
        this.real = real;
    }

    @Override
    public String name() {
        return real.name();
    }

    @Override
    public BlockFormat format() {
        return real.format();
    }

    @Override
    public int heads() {
        return real.heads();
    }

    @Override
    public Scratch scratch(Arena arena) {
        return real.scratch(arena);
    }

    @Override
    public void partial(DecodeTask task, int first, int last, long next, Scratch scratch, Partial partial) {
        this.next.accept(next);
        if (task.context() == poisoned) {
            throw new IllegalStateException("poisoned");
        }
        long number = tasks.incrementAndGet();
        if (pauses > 0 && number % pauses == 0) {
            LockSupport.parkNanos(PAUSE_NANOS);
        }
        if (stalls && isFirst()) {
            try {
                release.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
        real.partial(task, first, last, next, scratch, partial);
    }

    /** Number of calls that have begun. */
    public long tasks() {
        return tasks.get();
    }

    private synchronized boolean isFirst() {
        boolean first = stuck.getCount() > 0;
        stuck.countDown();
        return first;
    }
}
