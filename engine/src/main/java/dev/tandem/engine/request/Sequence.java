package dev.tandem.engine.request;

import dev.tandem.engine.kv.BlockTable;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.sampling.TokenSampler;
import java.util.Arrays;
import java.util.Optional;

/**
 * A request inside the engine: the buffer of its tokens, and how many of them have their KV computed.
 *
 * <p>There is no prefill or decode phase, only {@link #remaining()} tokens to compute. When all of them are computed,
 * the next token is sampled.
 *
 * <pre>
 *   0            computed()        known()          length()         limit()
 *   |  KV in cache  |  KV to compute  |  placeholders  |  free         |
 * </pre>
 *
 * A placeholder is a token that a submitted step samples and whose value only the device knows (async scheduling).
 *
 * <p>Owned by: engine thread.
 */
public final class Sequence {
    /** Stands for a token whose value only the device knows yet. */
    public static final int PLACEHOLDER = -1;

    private final long key;
    private final Request request;
    private final int limit;
    private final TokenSampler sampler;
    private final SequenceTimings timings;
    private final TierStatistics tiers = new TierStatistics();
    private final BlockTable table = new BlockTable();
    private int[] tokens;
    private int length;
    private int placeholders;
    private int computed;
    /** Negative until the sequence starts. */
    private int cachedTokens = -1;

    private int hostCachedTokens;

    private RequestState state = RequestState.WAITING;
    private BitmaskTiming bitmaskTiming = BitmaskTiming.IN_TIME;

    /**
     * Creates a sequence that holds the request's prompt and has nothing computed.
     *
     * @param key unique number, ascending with arrival
     * @param limit max tokens of prompt and output together
     */
    public Sequence(long key, Request request, long arrivedNanos, int limit, TokenSampler sampler) {
        this.key = key;
        this.request = request;
        this.limit = limit;
        this.sampler = sampler;
        this.timings = new SequenceTimings(arrivedNanos, request.priority());
        this.tokens = Arrays.copyOf(request.prompt(), request.prompt().length + 16);
        this.length = request.prompt().length;
    }

    /** Unique number, ascending with arrival. */
    public long key() {
        return key;
    }

    /** What the client asked for. */
    public Request request() {
        return request;
    }

    /** Chooses the sequence's tokens. */
    public TokenSampler sampler() {
        return sampler;
    }

    /** When it arrived, started and produced tokens. */
    public SequenceTimings timings() {
        return timings;
    }

    /** How its KV moved between the tiers. */
    public TierStatistics tiers() {
        return tiers;
    }

    /** The KV blocks that it holds. */
    public BlockTable table() {
        return table;
    }

    /** Where it stands in the engine. */
    public RequestState state() {
        return state;
    }

    /** Changes where it stands. */
    public void state(RequestState next) {
        state = next;
    }

    /** Whether its grammar's bitmasks are ready when steps sample it. */
    public BitmaskTiming bitmaskTiming() {
        return bitmaskTiming;
    }

    /** Notes whether its grammar's bitmasks are ready when steps sample it. */
    public void bitmaskTiming(BitmaskTiming next) {
        bitmaskTiming = next;
    }

    /** Prompt and output tokens so far, placeholders included. */
    public int length() {
        return length;
    }

    /** Tokens whose value is known: {@link #length} without placeholders. */
    public int known() {
        return length - placeholders;
    }

    /** Max tokens of prompt and output together. */
    public int limit() {
        return limit;
    }

    /** Tokens whose KV is in the cache. */
    public int computed() {
        return computed;
    }

    /** Tokens to compute: 1 for a decode, more while the prompt is computed, for the first time or again. */
    public int remaining() {
        return length - computed;
    }

    /** Output tokens whose value is known. */
    public int outputLength() {
        return known() - request.prompt().length;
    }

    /** A copy of tokens {@code [from, from + count)}. */
    public int[] tokens(int from, int count) {
        return Arrays.copyOfRange(tokens, from, from + count);
    }

    /** The token at a position; {@link #PLACEHOLDER} when its value is not known. */
    public int token(int position) {
        return tokens[position];
    }

    /** Counts tokens whose KV a step has computed, or computes before any later step. */
    public void advance(int count) {
        computed += count;
    }

    /**
     * Stores a sampled token: it replaces the oldest placeholder, or is appended when there is none.
     *
     * @param nanos when it was sampled
     */
    public void append(int token, long nanos) {
        timings.tokenAt(nanos);
        if (placeholders == 0) {
            addPlaceholder();
        }
        tokens[length - placeholders--] = token;
        if (tiers.prefillsHere()) {
            enteredTier(nanos);
        }
    }

    /** Appends a placeholder for the token that a submitted step samples. */
    public void addPlaceholder() {
        if (length == tokens.length) {
            tokens = Arrays.copyOf(tokens, length + (length >> 1) + 1);
        }
        tokens[length++] = PLACEHOLDER;
        placeholders++;
        tiers.addTokens(1);
    }

    /** Removes all placeholders: the sequence has ended, and later tokens of submitted steps are discarded. */
    public void dropPlaceholders() {
        length -= placeholders;
        tiers.addTokens(-placeholders);
        placeholders = 0;
    }

    /**
     * Starts with the KV of the first {@code cached} tokens in the cache.
     *
     * @param onHost how many of them were found in host blocks
     * @return whether this is the first start
     */
    public boolean startAt(int cached, int onHost) {
        computed = cached;
        boolean first = cachedTokens < 0;
        if (first) {
            cachedTokens = cached;
            hostCachedTokens = onHost;
        }
        return first;
    }

    /** Tokens whose KV was in the prefix cache when the sequence first started. */
    public int cachedTokens() {
        return Math.max(0, cachedTokens);
    }

    /** How many of the {@link #cachedTokens} were found in host blocks. */
    public int hostCachedTokens() {
        return hostCachedTokens;
    }

    /** Sets the computed tokens to 0, so that they are computed again. The caller frees the blocks. */
    public void restart() {
        computed = 0;
    }

    /**
     * Records for a trace where the KV is from now on.
     *
     * @param to the tier; empty where the KV was dropped
     */
    public void moved(Optional<KvTier> to, long nanos) {
        if (request.trace().isPresent()) {
            tiers.add(new KvMove(to, nanos - timings.arrivedNanos()));
        }
    }

    /** Records that the KV entered the tier where it is now. */
    public void enteredTier(long nanos) {
        tiers.entered(nanos, remaining() > 1 || computed == 0);
    }

    @Override
    public String toString() {
        return request.id() + "#" + key + " " + computed + "/" + length;
    }
}
