package dev.tandem.engine.request;

import dev.tandem.engine.kv.BlockTable;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Chunk;
import java.util.Arrays;

/**
 * A request inside the engine: its tokens so far and how many of them have their KV computed. There is no prefill or
 * decode phase, only {@link #remaining()} tokens to compute; when none remain before the last, the next one is sampled.
 *
 * <p>Owned by: engine thread.
 */
public final class Sequence {
    /**
     * What one unit of priority is worth in waiting time. Much more than a request takes, so that priorities 0 and 1
     * matter under load, and little enough that a request which nobody prefers still runs within a minute or so.
     */
    public static final long NANOS_PER_PRIORITY = 10_000_000_000L;
    /** Beyond these, priorities are alike: 158 years are the longest wait that a long can hold here. */
    private static final int MAX_PRIORITY = 500_000_000;

    private static final long NEVER = Long.MIN_VALUE;

    private final long key;
    private final Request request;
    private final long arrivedNanos;
    private final int limit;
    private final long priorityNanos;
    private final TokenSampler sampler;
    private final StopMatcher stopMatcher;
    private final BlockTable table = new BlockTable();
    private int[] tokens;
    private int length;
    private int placeholder;
    private int computed;
    private RequestState state = RequestState.WAITING;
    private long firstScheduledNanos = NEVER;
    private long firstTokenNanos = NEVER;
    private long lastTokenNanos = NEVER;
    private int preemptions;
    private int bypassed;
    private int hostTokens;
    private boolean nextFromHost;
    private long placedNanos;
    private int lengthWhenPlaced;
    /** Whether its prompt is computed where the KV is: its time there counts from its next token on. */
    private boolean prefillsWherePlaced;

    /**
     * @param key unique number, ascending with arrival
     * @param limit the most tokens prompt and output may have together
     */
    public Sequence(long key, Request request, long arrivedNanos, int limit, TokenSampler sampler) {
        this.key = key;
        this.request = request;
        this.arrivedNanos = arrivedNanos;
        this.limit = limit;
        this.priorityNanos = NANOS_PER_PRIORITY * Math.clamp(request.priority(), -MAX_PRIORITY, MAX_PRIORITY);
        this.sampler = sampler;
        this.stopMatcher =
                new StopMatcher(request.sampling().stop(), request.sampling().includeStop());
        this.tokens = Arrays.copyOf(request.prompt(), request.prompt().length + 16);
        this.length = request.prompt().length;
    }

    public long key() {
        return key;
    }

    public Request request() {
        return request;
    }

    public TokenSampler sampler() {
        return sampler;
    }

    public StopMatcher stopMatcher() {
        return stopMatcher;
    }

    public BlockTable table() {
        return table;
    }

    public RequestState state() {
        return state;
    }

    public void state(RequestState next) {
        state = next;
    }

    /** Prompt and output tokens so far, with those that steps under way will sample. */
    public int length() {
        return length;
    }

    /** Of these, the tokens that are known. */
    public int known() {
        return length - placeholder;
    }

    /** The most tokens this sequence may reach. */
    public int limit() {
        return limit;
    }

    /** Tokens whose KV is in the cache. */
    public int computed() {
        return computed;
    }

    /** Tokens not yet computed: 1 when decoding, more while the prompt (or a recomputation) is under way. */
    public int remaining() {
        return length - computed;
    }

    public int outputLength() {
        return known() - request.prompt().length;
    }

    /** A copy of tokens {@code [from, from + count)}. */
    public int[] tokens(int from, int count) {
        return Arrays.copyOfRange(tokens, from, from + count);
    }

    public void advance(int count) {
        computed += count;
    }

    /**
     * The next token; the one that has been awaited longest, if some are.
     *
     * @param nanos when it was sampled
     */
    public void append(int token, long nanos) {
        lastTokenNanos = nanos;
        if (placeholder == 0) {
            addPlaceholder();
        }
        tokens[length - placeholder--] = token;
        if (prefillsWherePlaced) {
            placedAt(nanos);
        }
    }

    /** The step under way samples the next token: it counts, though nobody knows it. */
    public void addPlaceholder() {
        if (length == tokens.length) {
            tokens = Arrays.copyOf(tokens, length + (length >> 1) + 1);
        }
        tokens[length++] = Chunk.PLACEHOLDER;
        placeholder++;
    }

    /** It has ended: what steps under way sample for it is nobody's. */
    public void dropPlaceholders() {
        length -= placeholder;
        placeholder = 0;
    }

    /** Forgets the computed KV (its blocks are the cache's business) so that it is computed again. */
    public void restart() {
        computed = 0;
    }

    /** When its last token was sampled; before all others if it has none. */
    public long lastTokenNanos() {
        return lastTokenNanos;
    }

    public void countPreemption() {
        preemptions++;
    }

    public void countBypassed() {
        bypassed++;
    }

    /** Requests behind this one in line that have started before it. */
    public int bypassed() {
        return bypassed;
    }

    /** The next token's attention was computed from host KV. */
    public void countHostToken() {
        hostTokens++;
        nextFromHost = true;
    }

    /** Whether that holds of the token that is appended now; asked once a token. */
    public boolean takeFromHost() {
        boolean fromHost = nextFromHost;
        nextFromHost = false;
        return fromHost;
    }

    public long arrivedNanos() {
        return arrivedNanos;
    }

    /** The moment, moved by the request's priority: who has the lower one goes first. */
    public long aged(long nanos) {
        return nanos == NEVER ? NEVER : nanos + priorityNanos;
    }

    /** Notes that the KV came to the place where it now is. */
    public void placedAt(long nanos) {
        placedNanos = nanos;
        lengthWhenPlaced = length;
        prefillsWherePlaced = computed == 0;
    }

    /** When its KV came to the place where it is, or, of a prompt that was computed there, its next token. */
    public long placedNanos() {
        return placedNanos;
    }

    /** Tokens generated since {@link #placedNanos}. */
    public int tokensSincePlaced() {
        return length - lengthWhenPlaced;
    }

    /** Notes when the sequence left the queue; true the first time. */
    public boolean scheduledAt(long nanos) {
        if (firstScheduledNanos != NEVER) {
            return false;
        }
        firstScheduledNanos = nanos;
        return true;
    }

    /** Notes when the first token came, and returns how long that took from arrival. */
    public long firstTokenAt(long nanos) {
        firstTokenNanos = nanos;
        return nanos - arrivedNanos;
    }

    public Usage usage(long nowNanos) {
        return new Usage(
                request.prompt().length,
                outputLength(),
                firstScheduledNanos == NEVER ? nowNanos - arrivedNanos : firstScheduledNanos - arrivedNanos,
                firstTokenNanos == NEVER ? 0 : firstTokenNanos - arrivedNanos,
                nowNanos - arrivedNanos,
                preemptions,
                hostTokens);
    }

    @Override
    public String toString() {
        return request.id() + "#" + key + " " + computed + "/" + length;
    }
}
