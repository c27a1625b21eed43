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
 * A matcher of llguidance. As soon as a token is accepted, a thread moves the library's matcher on. Where there is a
 * choice, a second task computes the next bitmask. Whoever needs the result of a task waits for it.
 *
 * <p>The tasks of all matchers share threads, in order. Those that move on come first after a step, so that the engine
 * does not wait for bitmasks when it asks for forced tokens.
 *
 * <p>Threads take turns: the owner touches the library's matcher, the bitmask and the failure only while no task runs,
 * and the forced tokens only once the matcher has moved.
 */
final class LlguidanceMatcher implements GrammarMatcher {
    private static final int[] NONE = {};

    private final Llguidance library;
    private final Set<Integer> ends;
    private final Executor threads;
    /** Collected with this object: closing memory that threads share is expensive. */
    private final MemorySegment bitmask;

    /** NULL once closed. */
    private MemorySegment matcher;

    /** Tokens that come next without a choice; then there is no bitmask. */
    private int[] forced = NONE;

    /** Why the output cannot be followed; empty while it can. */
    private String failure = "";

    private CompletableFuture<Void> moved;
    private CompletableFuture<Void> masked;

    LlguidanceMatcher(Llguidance library, MemorySegment matcher, int words, Set<Integer> ends, Executor threads) {
        this.library = library;
        this.matcher = matcher;
        this.ends = ends;
        this.threads = threads;
        this.bitmask = Arena.ofAuto().allocate(JAVA_INT, words);
        start(NONE);
    }

    private void start(int... tokens) {
        moved = CompletableFuture.runAsync(() -> orFail(() -> move(tokens)), threads);
        masked = moved.thenRunAsync(() -> orFail(this::computeMask), threads);
    }

    /** Fails this matcher alone if the task throws: whoever waits for it serves other requests too. */
    private void orFail(Runnable task) {
        try {
            task.run();
        } catch (RuntimeException | Error e) {
            failure = e.toString();
        }
    }

    private void move(int[] tokens) {
        forced = NONE;
        for (int token : tokens) {
            if (!library.consumeToken(matcher, token)) {
                fail();
                return;
            }
        }
        forced = library.forcedTokens(matcher);
    }

    private void computeMask() {
        if (failure.isEmpty() && forced.length == 0 && !library.computeMask(matcher, bitmask)) {
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
        masked.join();
        if (isClosed() || !failure.isEmpty()) {
            Arrays.fill(target, -1);
            return;
        }
        if (forced.length > 0) {
            Arrays.fill(target, 0);
            target[forced[0] / 32] = 1 << forced[0];
            return;
        }
        int words = Math.min(target.length, (int) (bitmask.byteSize() / Integer.BYTES));
        MemorySegment.copy(bitmask, JAVA_INT, 0, target, 0, words);
        Arrays.fill(target, words, target.length, 0);
    }

    @Override
    public int[] acceptForced() {
        moved.join();
        if (isClosed() || forced.length == 0) {
            return NONE;
        }
        masked.join(); // at once: there is no bitmask to compute
        int[] tokens = forced;
        start(tokens);
        return tokens;
    }

    @Override
    public void accept(int token) {
        masked.join();
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
            start(token);
        }
    }

    private boolean isAllowed(int token) {
        if (forced.length > 0) {
            return token == forced[0];
        }
        return token / 32 < bitmask.byteSize() / Integer.BYTES
                && (bitmask.getAtIndex(JAVA_INT, token / 32) >>> token & 1) == 1;
    }

    @Override
    public void close() {
        masked.join();
        if (!isClosed()) {
            library.freeMatcher(matcher);
            matcher = MemorySegment.NULL;
        }
    }
}
