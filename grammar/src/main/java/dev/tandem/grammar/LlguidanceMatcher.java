package dev.tandem.grammar;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.engine.sampling.SamplingException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A matcher of llguidance. As soon as a token is accepted, a thread moves the library's matcher on. A bitmask is
 * computed when it is prepared for, by a thread, or when it is needed, by the caller. Whoever needs the result of a
 * task waits for it. Moves are short and have threads of their own, because the engine needs the tokens that the
 * grammar forces and would otherwise wait for other matchers' bitmasks.
 *
 * <p>A token that is allowed is found to be so without the bitmask: that takes 2 us, a bitmask of which many tokens fit
 * 400 us.
 *
 * <p>A token that was added to the vocabulary is not forced: the model chooses among the tokens that begin its text. It
 * may have been trained without that token, and what it writes after one that it does not know is noise (ADR 90).
 *
 * <p>Threads take turns: the owner touches the library's matcher, the bitmask, the forced tokens and the failure only
 * while no task runs.
 */
final class LlguidanceMatcher implements GrammarMatcher {
    private static final int[] NONE = {};

    private final Llguidance library;
    private final ByteTokenizer text;
    private final int vocabulary;
    private final Set<Integer> ends;
    private final Executor moves;
    private final Executor bitmasks;
    /** Collected with this object: closing memory that threads share is expensive. */
    private final MemorySegment bitmask;

    private final MemorySegment matcher;
    /** No task that starts afterwards touches the library's matcher, which the last one frees. */
    private volatile boolean closed;

    /** Tokens that come next without a choice; then there is no bitmask. */
    private int[] forced = NONE;

    /** The tokens that may come next where the text that is forced begins with an added token; else empty. */
    private int[] beginnings = NONE;

    /** Why the output cannot be followed; empty while it can. */
    private String failure = "";

    /** Whether the bitmask of the next token is computed, or a task computes it. */
    private boolean hasBitmask;

    /** The last task. */
    private CompletableFuture<Void> running;

    /**
     * @param moves moves matchers on
     * @param bitmasks computes bitmasks
     */
    LlguidanceMatcher(
            Llguidance library,
            ByteTokenizer text,
            MemorySegment matcher,
            int vocabulary,
            Set<Integer> ends,
            Executor moves,
            Executor bitmasks) {
        this.library = library;
        this.text = text;
        this.matcher = matcher;
        this.vocabulary = vocabulary;
        this.ends = ends;
        this.moves = moves;
        this.bitmasks = bitmasks;
        this.bitmask = Arena.ofAuto().allocate(JAVA_INT, GrammarMatcher.words(vocabulary));
        start(NONE);
    }

    private void start(int... tokens) {
        hasBitmask = false;
        running = CompletableFuture.runAsync(() -> orFail(() -> move(tokens)), moves);
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
        beginnings = NONE;
        for (int token : tokens) {
            if (!library.consumeToken(matcher, token)) {
                fail();
                return;
            }
        }
        int[] next = library.forcedTokens(matcher);
        int count = 0;
        while (count < next.length && !text.isAdded(next[count])) {
            count++;
        }
        forced = Arrays.copyOf(next, count);
        beginnings = count == 0 && next.length > 0 ? text.beginnings(next[0]) : NONE;
    }

    private void computeMask() {
        if (closed || !failure.isEmpty() || forced.length > 0) {
            return;
        }
        if (beginnings.length > 0) { // the library's bitmask has the added token alone
            bitmask.fill((byte) 0);
            for (int token : beginnings) {
                int word = bitmask.getAtIndex(JAVA_INT, token / 32);
                bitmask.setAtIndex(JAVA_INT, token / 32, word | 1 << token);
            }
        } else if (!library.computeMask(matcher, bitmask)) {
            fail();
        }
    }

    private void fail() {
        failure = library.error(matcher).orElse("llguidance gives no reason");
    }

    @Override
    public boolean allows(int token) {
        if (closed) {
            return true;
        }
        running.join();
        return !failure.isEmpty() || isAllowed(token);
    }

    private boolean isAllowed(int token) {
        if (forced.length > 0) {
            return token == forced[0];
        }
        if (token >= vocabulary) { // of a model with more logits than its tokenizer has tokens
            return false;
        }
        if (!hasBitmask && library.validateToken(matcher, token)) {
            return true;
        }
        completeBitmask();
        return !failure.isEmpty() || (bitmask.getAtIndex(JAVA_INT, token / 32) >>> token & 1) == 1;
    }

    @Override
    public void prepareBitmask() {
        if (!hasBitmask && !closed) {
            hasBitmask = true;
            running = running.thenRunAsync(() -> orFail(this::computeMask), bitmasks);
        }
    }

    @Override
    public boolean awaitReady(long maxNanos) {
        if (maxNanos > 0 && !running.isDone()) {
            try {
                running.get(maxNanos, TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                return false;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } catch (ExecutionException e) {
                throw new IllegalStateException("a task of a matcher threw", e); // tasks catch what they throw
            }
        }
        return running.isDone();
    }

    /** Computes the bitmask unless that is done. */
    private void completeBitmask() {
        if (!hasBitmask) {
            hasBitmask = true;
            orFail(this::computeMask);
        }
    }

    @Override
    public void fillBitmask(int[] target) {
        if (!closed) {
            running.join();
            completeBitmask();
        }
        if (closed || !failure.isEmpty()) {
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
        if (closed) {
            return NONE;
        }
        running.join();
        if (forced.length == 0) {
            return NONE;
        }
        int[] tokens = forced;
        start(tokens);
        return tokens;
    }

    @Override
    public void accept(int token) {
        if (closed) {
            return;
        }
        running.join();
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

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            running = running.thenRun(() -> library.freeMatcher(matcher)); // a bitmask may still be computed
        }
    }
}
