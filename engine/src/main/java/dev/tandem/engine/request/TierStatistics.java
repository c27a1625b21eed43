package dev.tandem.engine.request;

import java.util.ArrayList;
import java.util.List;

/**
 * How a sequence's KV has moved between the tiers, and what it did in the tier where it is now.
 *
 * <p>Owned by: engine thread.
 */
public final class TierStatistics {
    /** Max moves that are kept per traced request: a trace is read by people, and has the count of preemptions too. */
    static final int MAX_MOVES = 64;

    private int preemptions;
    private int hostTokens;
    private long enteredNanos;
    private int tokensSinceEntry;
    /** True while the prompt is computed in this tier: the time there counts from the next token on. */
    private boolean prefillsHere;

    private List<KvMove> moves = List.of();

    /** Counts a loss of GPU blocks: the KV moved to the host or was dropped. */
    public void countPreemption() {
        preemptions++;
    }

    /** Times the sequence lost its GPU blocks, or was dropped from the host. */
    public int preemptions() {
        return preemptions;
    }

    /** Counts an output token whose attention read host KV. */
    public void countHostToken() {
        hostTokens++;
    }

    /** Output tokens whose attention read host KV. */
    public int hostTokens() {
        return hostTokens;
    }

    /**
     * Records that the KV entered the tier where it is now.
     *
     * @param prefills whether the prompt is yet to be computed there
     */
    void entered(long nanos, boolean prefills) {
        enteredNanos = nanos;
        tokensSinceEntry = 0;
        prefillsHere = prefills;
    }

    boolean prefillsHere() {
        return prefillsHere;
    }

    /** When the KV entered its tier; for a prompt that was computed there, when its next token was sampled. */
    public long enteredNanos() {
        return enteredNanos;
    }

    /** Records a move; those beyond {@link #MAX_MOVES} are left out. */
    void add(KvMove move) {
        if (moves.isEmpty()) {
            moves = new ArrayList<>();
        }
        if (moves.size() < MAX_MOVES) {
            moves.add(move);
        }
    }

    /** The first moves of a traced request; empty for others. */
    List<KvMove> moves() {
        return List.copyOf(moves);
    }

    void addTokens(int count) {
        tokensSinceEntry += count;
    }

    /** Tokens generated since {@link #enteredNanos}, placeholders included. */
    public int tokensSinceEntry() {
        return tokensSinceEntry;
    }
}
