package dev.tandem.engine.loop;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.BitmaskTiming;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Which rows of a submitted step are sampled.
 *
 * <p>A row whose bitmask is late is left out: its last token counts as not computed, so that a later step computes it
 * again and samples. A row is skipped whose sequence has ended, or whose next token is known already.
 *
 * <p>Owned by: engine thread.
 */
final class StepSampling {
    private final boolean behindLayers;
    private final boolean later;
    /** Sequences of which the step samples no token. */
    private final Set<Long> notSampled = new HashSet<>();
    /** Of these, the sequences whose bitmask was late. */
    private final Set<Long> leftOut = new HashSet<>();

    private long waitedNanos;

    private StepSampling(boolean behindLayers, boolean later) {
        this.behindLayers = behindLayers;
        this.later = later;
    }

    /**
     * The sampling of a plan that is about to be submitted; threads begin to compute the bitmasks of its rows.
     *
     * @param follows whether the step before still runs
     * @param byBitmask as {@link dev.tandem.engine.executor.Executor#drawsByBitmask}
     */
    static StepSampling of(StepPlan plan, boolean follows, boolean byBitmask) {
        boolean behindLayers = false;
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                if (chunk.sampler().isPresent()) {
                    TokenSampler sampler = chunk.sampler().get();
                    sampler.prepare(byBitmask);
                    behindLayers |= sampler.matcher().isPresent() || follows && sampler.dependsOnOutput();
                }
            }
        }
        // the host samples in-flight tokens
        plan.admissions().forEach(admission -> admission.sampler().prepare(false));
        return new StepSampling(behindLayers, behindLayers && follows);
    }

    /** Whether the step samples behind its layers, because rows have grammars or need a result that is not known. */
    boolean isBehindLayers() {
        return behindLayers;
    }

    /** Does not sample the sequence; before the step samples. */
    void skip(long sequence) {
        notSampled.add(sequence);
    }

    /**
     * Waits for the bitmasks of the rows, and leaves out those that are late. Where the step computes nobody else, it
     * waits for one of them.
     *
     * @param live sequences whose end is not settled, by key
     * @param untilNanos when waiting ends, by {@code clock}
     */
    void leaveOutLate(StepPlan plan, Map<Long, Sequence> live, Clock clock, long untilNanos) {
        long began = clock.nanos();
        boolean others = plan.slotsPerLayer() > 0
                || !plan.admissions().isEmpty()
                || !plan.resume().isEmpty();
        List<Sequence> late = new ArrayList<>();
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                Sequence sequence = live.get(chunk.sequence());
                if (sequence == null) {
                    continue; // it has ended
                }
                if (samples(chunk) && !isReady(sequence, clock, untilNanos)) {
                    late.add(sequence);
                } else {
                    others = true;
                }
            }
        }
        if (!others && !late.isEmpty()) {
            late.removeFirst().sampler().awaitReady(Long.MAX_VALUE);
            late.removeIf(sequence -> sequence.sampler().awaitReady(0));
        }
        for (Sequence sequence : late) {
            leftOut.add(sequence.key());
            notSampled.add(sequence.key());
            sequence.bitmaskTiming(BitmaskTiming.PENDING);
        }
        waitedNanos = clock.nanos() - began;
    }

    private static boolean isReady(Sequence sequence, Clock clock, long untilNanos) {
        return sequence.sampler().awaitReady(0)
                || sequence.sampler().awaitReady(Math.max(0, untilNanos - clock.nanos()));
    }

    /** Whether the chunk's last token yields the sequence's next. */
    boolean samples(Chunk chunk) {
        return chunk.sampler().isPresent() && (notSampled.isEmpty() || !notSampled.contains(chunk.sequence()));
    }

    /** Tokens of the chunk that count as computed. */
    int computed(Chunk chunk) {
        return leftOut.isEmpty() || !leftOut.contains(chunk.sequence()) ? chunk.rows() : chunk.rows() - 1;
    }

    /** Sequences of which the step samples no token. */
    Set<Long> notSampled() {
        return Set.copyOf(notSampled);
    }

    /** When the step sampled. */
    StepRecord.Sampling record() {
        return new StepRecord.Sampling(later, leftOut.size(), waitedNanos);
    }
}
