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

/** The real implementation, until it is told to misbehave. */
public final class UnreliableAttention implements PagedDecodeAttention {
    private static final long PAUSE_NANOS = 2_000_000;

    private final PagedDecodeAttention real;
    private final AtomicLong tasks = new AtomicLong();
    /** Tokens of a context that it throws at; negative for none. */
    public volatile int poisoned = -1;
    /** Whether one task never ends, until {@link #release}. */
    public volatile boolean stalls;
    /** A task in so many takes milliseconds longer; 0 for none. */
    public volatile int pauses;
    /** Learns what each call is told that its thread reads next. */
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
        if (pauses > 0 && tasks.incrementAndGet() % pauses == 0) {
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

    private synchronized boolean isFirst() {
        boolean first = stuck.getCount() > 0;
        stuck.countDown();
        return first;
    }
}
