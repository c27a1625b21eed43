package dev.tandem.grammar;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.engine.sampling.SamplingException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.FutureTask;

/**
 * A matcher of llguidance. As soon as a token is accepted, a thread computes the bitmask of the next one. Who needs the
 * bitmask waits for it, or computes it where no thread has begun.
 *
 * <p>The lock guards the library's matcher, which one thread may use at a time.
 */
final class LlguidanceMatcher implements GrammarMatcher {
    private final Llguidance library;
    private final Executor threads;
    /** Collected with this object: closing memory that threads share is expensive. */
    private final MemorySegment bitmask;

    /** NULL once closed. */
    private MemorySegment matcher;

    private String failure = "";
    private FutureTask<Void> next;

    LlguidanceMatcher(Llguidance library, MemorySegment matcher, int words, Executor threads) {
        this.library = library;
        this.matcher = matcher;
        this.threads = threads;
        this.bitmask = Arena.ofAuto().allocate(JAVA_INT, words);
        this.next = new FutureTask<>(this::compute, null);
        threads.execute(next);
    }

    private synchronized void compute() {
        if (isOpen() && !library.computeMask(matcher, bitmask)) {
            fail();
        }
    }

    private boolean isOpen() {
        return !matcher.equals(MemorySegment.NULL) && failure.isEmpty();
    }

    private void fail() {
        failure = library.error(matcher).orElse("llguidance gives no reason");
    }

    @Override
    public void fillBitmask(int[] target) {
        next.run(); // returns at once where a thread has begun
        await();
        synchronized (this) {
            if (!isOpen()) {
                Arrays.fill(target, -1);
                return;
            }
            int words = Math.min(target.length, (int) (bitmask.byteSize() / Integer.BYTES));
            MemorySegment.copy(bitmask, JAVA_INT, 0, target, 0, words);
            Arrays.fill(target, words, target.length, 0);
        }
    }

    private void await() {
        boolean interrupted = false;
        while (true) {
            try {
                next.get();
                break;
            } catch (InterruptedException e) {
                interrupted = true;
            } catch (ExecutionException e) {
                throw new SamplingException("the output's grammar cannot be followed: " + e.getCause());
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void accept(int token) {
        next.cancel(false);
        synchronized (this) {
            if (isOpen() && !library.consumeToken(matcher, token)) {
                fail();
            }
            if (!failure.isEmpty()) {
                throw new SamplingException("the output's grammar cannot be followed: " + failure);
            }
            if (!isOpen()) {
                return;
            }
        }
        next = new FutureTask<>(this::compute, null);
        threads.execute(next);
    }

    @Override
    public synchronized void close() {
        if (!matcher.equals(MemorySegment.NULL)) {
            library.freeMatcher(matcher);
            matcher = MemorySegment.NULL;
        }
    }
}
