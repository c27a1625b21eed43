package dev.tandem.engine.observe;

import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.SequenceTimings;
import dev.tandem.engine.schedule.SchedulerState;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/**
 * The live requests at one moment: those with KV first, then the queue in its order.
 *
 * @param nanos when it was taken, by the engine's clock
 * @param live number of live requests, those beyond {@link #MAX_LISTED} included
 * @param requests at most {@link #MAX_LISTED} of them
 */
public record RequestSnapshot(long nanos, int live, List<Entry> requests) {
    /** Max requests that are listed, so that the engine thread is held up for microseconds only. */
    public static final int MAX_LISTED = 256;

    /** Where a request stands. */
    public enum Standing {
        /** It holds no KV and has not started. */
        WAITING,
        /** Its KV was dropped, and is computed again once there is room. */
        DROPPED,
        /** Its KV is in GPU blocks. */
        GPU,
        /** Its KV is in host blocks. */
        HOST,
        /** Its KV is in host blocks, and its token is between two layers. */
        IN_FLIGHT
    }

    /**
     * Tokens of one request.
     *
     * @param prompt of the prompt
     * @param output generated so far
     * @param computed tokens whose KV is in the cache
     * @param host generated tokens whose attention read host KV
     * @param limit max tokens of prompt and output together
     */
    public record Tokens(int prompt, int output, int computed, int host, int limit) {}

    /**
     * Times of one request in nanoseconds.
     *
     * @param age since its arrival
     * @param queued from its arrival to its first step, or until now
     * @param sinceToken since its last token; negative before the first
     */
    public record Times(long age, long queued, long sinceToken) {}

    /**
     * One live request.
     *
     * @param id the request's id
     * @param tokens how far it is
     * @param blocks KV blocks that it holds, as {@link KvLayout#blocks} counts them; for one without, those of the GPU
     *     that it needs to start
     * @param times when it arrived and what it has received since
     * @param preemptions times that it lost its blocks to others
     * @param bypassed requests behind it in the queue that started before it
     */
    public record Entry(
            String id, Standing standing, Tokens tokens, int blocks, Times times, int preemptions, int bypassed) {
        private static Entry of(Sequence sequence, Standing standing, int blocks, long now) {
            SequenceTimings timings = sequence.timings();
            boolean hasToken = sequence.outputLength() > 0;
            return new Entry(
                    sequence.request().id(),
                    standing,
                    new Tokens(
                            sequence.request().prompt().length,
                            sequence.outputLength(),
                            sequence.computed(),
                            sequence.tiers().hostTokens(),
                            sequence.limit()),
                    blocks,
                    new Times(
                            now - timings.arrivedNanos(),
                            timings.queued(now),
                            hasToken ? now - timings.lastTokenNanos() : -1),
                    sequence.tiers().preemptions(),
                    timings.bypassed());
        }
    }

    /** A snapshot without requests. */
    public static RequestSnapshot empty(long nanos) {
        return new RequestSnapshot(nanos, 0, List.of());
    }

    /** The state's requests now. Engine thread only. */
    public static RequestSnapshot of(SchedulerState state, long now) {
        int live = state.gpu().size()
                + state.inFlight().size()
                + state.host().size()
                + state.waiting().size();
        List<Entry> entries = new ArrayList<>(Math.min(live, MAX_LISTED));
        KvLayout layout = state.kv().layout();
        add(entries, state.gpu(), Standing.GPU, layout, now);
        add(entries, state.inFlight(), Standing.IN_FLIGHT, layout, now);
        add(entries, state.host(), Standing.HOST, layout, now);
        for (Sequence sequence : state.waiting().view()) {
            if (entries.size() == MAX_LISTED) {
                break;
            }
            boolean started = sequence.tiers().preemptions() > 0;
            int needed = layout.blocks(state.kv().maxHeld(KvTier.GPU, sequence.length()));
            entries.add(Entry.of(sequence, started ? Standing.DROPPED : Standing.WAITING, needed, now));
        }
        return new RequestSnapshot(now, live, List.copyOf(entries));
    }

    private static void add(
            List<Entry> entries, Collection<Sequence> sequences, Standing standing, KvLayout layout, long now) {
        for (Sequence sequence : sequences) {
            if (entries.size() == MAX_LISTED) {
                return;
            }
            entries.add(
                    Entry.of(sequence, standing, layout.blocks(sequence.table().pages()), now));
        }
    }
}
