package dev.tandem.grammar;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.engine.sampling.SamplingException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/**
 * A matcher of llguidance. As soon as a token is accepted, a thread moves the library's matcher on and computes the
 * next bitmask; whoever needs the bitmask waits for it.
 *
 * <p>Threads take turns: the owner touches the library's matcher, the bitmask and the failure only while no task runs.
 */
final class LlguidanceMatcher implements GrammarMatcher {
    private final Llguidance library;
    private final Set<Integer> ends;
    private final Executor threads;
    /** Collected with this object: closing memory that threads share is expensive. */
    private final MemorySegment bitmask;

    /** NULL once closed. */
    private MemorySegment matcher;

    /** Why the output cannot be followed; empty while it can. */
    private String failure = "";

    private CompletableFuture<Void> task;

    LlguidanceMatcher(Llguidance library, MemorySegment matcher, int words, Set<Integer> ends, Executor threads) {
        this.library = library;
        this.matcher = matcher;
        this.ends = ends;
        this.threads = threads;
        this.bitmask = Arena.ofAuto().allocate(JAVA_INT, words);
        this.task = CompletableFuture.runAsync(this::computeMask, threads);
    }

    private void computeMask() {
        if (!library.computeMask(matcher, bitmask)) {
            fail();
        }
    }

    private void consume(int token) {
        if (library.consumeToken(matcher, token)) {
            computeMask();
        } else {
            fail();
        }
    }

    private void fail() {
        failure = library.error(matcher).orElse("llguidance gives no reason");
    }

    private boolean isClosed() {
        return matcher.equals(MemorySegment.NULL);
    }

    @Override
    public void fillBitmask(int[] target) {
        task.join();
        if (isClosed() || !failure.isEmpty()) {
            Arrays.fill(target, -1);
            return;
        }
        int words = Math.min(target.length, (int) (bitmask.byteSize() / Integer.BYTES));
        MemorySegment.copy(bitmask, JAVA_INT, 0, target, 0, words);
        Arrays.fill(target, words, target.length, 0);
    }

    @Override
    public void accept(int token) {
        task.join();
        if (isClosed()) {
            return;
        }
        if (failure.isEmpty() && !isAllowed(token)) {
            failure = "it does not allow token " + token;
        }
        if (!failure.isEmpty()) {
            throw new SamplingException("the output cannot follow its grammar: " + failure);
        }
        if (!ends.contains(token)) { // a matcher that allows only the end consumes nothing more
            task = CompletableFuture.runAsync(() -> consume(token), threads);
        }
    }

    private boolean isAllowed(int token) {
        return token / 32 < bitmask.byteSize() / Integer.BYTES
                && (bitmask.getAtIndex(JAVA_INT, token / 32) >>> token & 1) == 1;
    }

    @Override
    public void close() {
        task.join();
        if (!isClosed()) {
            library.freeMatcher(matcher);
            matcher = MemorySegment.NULL;
        }
    }
}
