package dev.tandem.engine.strategy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.GpuKvLimit;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import java.util.Collection;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Decides which sequences may be on the host, and for how long. Latency targets keep requests off a host that is too
 * slow for them. Rotation exchanges host and GPU sequences, so that none stays on the slow tier for ever. The papers
 * have neither; without targets and rotation the rules change nothing.
 *
 * <p>Owned by: engine thread.
 */
public final class TierRules {
    /**
     * Steps between two measurements of the host's time per token, between two rotations, and between two searches for
     * a {@link GpuKvLimit}. All scan a tier, so they are not done in every step.
     */
    private static final int REFRESH = 32;
    /** Min tokens of a sequence on a tier before its time per token counts. */
    private static final int MIN_TOKENS = 4;
    /**
     * Max expected time per token of tokens that wait for the CPU within a step, in targets. On an L4, reasoning, 160
     * ms, two seeds, 0.94 has a p99 of 142 and 211 ms, and 0.9 of 131 and 136 (simulated, ADR 136).
     */
    static final double MAX_PACE = 0.9;
    /**
     * The same for the predicted time of two sub-batches, which is the GPU's and varies less: on an imitated L4,
     * reasoning, 160 ms, p99 is 1 ms above the mean there, and 10 to 16 in one batch (ADR 138). By nine profiles, half
     * hours with 0.95, 0.97 and 0.98 have 462, 470 and 476 tokens/s, and a p99 of up to 155, 158 and 161 ms (simulated,
     * trial builds but for 0.97, ADR 147).
     */
    static final double MAX_PACE_IN_SUB_BATCHES = 0.97;
    /**
     * Factor by which expectations grow at each measurement where sequences and their latest tokens miss a target. Not
     * while requests wait and none enters the host, unless tokens were in flight.
     */
    private static final double GROWTH = 1.01;
    /** Factor by which they shrink at each measurement where none is late, also while the host is empty. */
    private static final double SHRINKAGE = 1.01;
    /** Max factor: expectations that are further from what is measured keep every request off the host. */
    private static final double MAX_CORRECTION = 1.5;
    /** Steps over which the queue is compared with what it was: as many as the guard's window has by default. */
    private static final int QUEUE_WINDOW = 1024;
    /** Weight of the newest step in their mean, over about as many steps as a request has tokens. */
    private static final double MEAN_WEIGHT = 1 / 256.0;

    private final LatencyTargets defaultTargets;
    private final int rotateAfter;
    private final double maxSlowdown;
    private final int refresh;
    private final QueueTrend queue = new QueueTrend(QUEUE_WINDOW);
    private double hostNanosPerToken;
    private boolean missesTargets;
    /** Factor on expected times per token, because host tokens also wait for slots and for room in steps. */
    private double correction = 1;

    private double meanStepSeconds;
    private int untilMeasurement;
    private int sinceRotation;
    private long measuredNanos;
    /** Steps since then. */
    private int steps;
    /** Tokens of host sequences in these steps. */
    private int hostTokens;
    /** The sum of the sequences on the host in each of these steps. */
    private int sequenceSteps;
    /** Whether tokens were in flight in any of these steps. */
    private boolean hadInFlight;

    private int gpuBlocksKeptFree;
    private GpuKvLimit gpuKvLimit = GpuKvLimit.NONE;
    private int sinceGpuKvLimit;

    /**
     * Creates rules.
     *
     * @param defaultTargets of requests that bring none
     * @param rotateAfter tokens after which a host sequence may change places with a GPU sequence; 0 for never
     * @param maxSlowdown a host sequence whose time per token exceeds the GPU's by this factor is due for rotation at
     *     once; 0 for never
     */
    public TierRules(LatencyTargets defaultTargets, int rotateAfter, double maxSlowdown) {
        this(defaultTargets, rotateAfter, maxSlowdown, REFRESH);
    }

    /**
     * Creates rules that measure at another interval.
     *
     * @param refresh steps between two measurements, and between two rotations
     */
    public TierRules(LatencyTargets defaultTargets, int rotateAfter, double maxSlowdown, int refresh) {
        if (rotateAfter < 0) {
            throw new ConfigurationException("--rotate-after " + rotateAfter + " is negative;"
                    + " it must be 0 or more, and 0 turns rotation off");
        }
        if (!(maxSlowdown >= 0)) {
            throw new ConfigurationException(
                    "--max-host-slowdown " + maxSlowdown + " is not a number of 0 or more; 0 turns the limit off");
        }
        this.defaultTargets = defaultTargets;
        this.rotateAfter = rotateAfter;
        this.maxSlowdown = maxSlowdown;
        this.refresh = refresh;
        this.sinceRotation = refresh;
        this.sinceGpuKvLimit = refresh;
    }

    /** Rules without targets and rotation, as in the papers. */
    public static TierRules neutral() {
        return new TierRules(LatencyTargets.NONE, 0, 0);
    }

    /** Targets of requests that bring none. */
    public LatencyTargets defaultTargets() {
        return defaultTargets;
    }

    /** Whether the host would still be fast enough for the sequence's target with the sequence on it. */
    boolean mayLiveOnHost(StepDraft draft, Sequence sequence, HostPace pace) {
        long target = target(sequence);
        if (target == 0) {
            return true;
        }
        double shortest = pace.shortestTarget(draft, draft.hostSequences() + 1, pace.context(draft, sequence));
        return correction * shortest * 1e9 <= target;
    }

    /**
     * Whether a host would keep the default target, and the targets of sequences.
     *
     * @param shortest target that it is predicted to keep, in seconds
     */
    boolean allKeepTargets(Collection<Sequence> sequences, double shortest) {
        double expected = correction * shortest * 1e9;
        for (Sequence sequence : sequences) {
            if (target(sequence) > 0 && expected > target(sequence)) {
                return false;
            }
        }
        return expected <= defaultTargets.perTokenNanos();
    }

    /** Whether the queue lasts so long that a host that is filled for it pays, whatever a single step gains. */
    boolean queueLasts(SchedulerState state) {
        return queue.lasts(state);
    }

    /** Factor on expected times per token, 1 or more: it grows while requests on the host are late and others enter. */
    double correction() {
        return correction;
    }

    /** Mean seconds of completed steps; 0 before the first. */
    double meanStepSeconds() {
        return meanStepSeconds;
    }

    /**
     * Blocks of the GPU's pool that stay free since {@link GpuKvLimit} was last found; 0 if no prompts were to start on
     * the host then.
     */
    int gpuBlocksKeptFree() {
        return gpuBlocksKeptFree;
    }

    /** How much KV the GPU is to hold, as it was last found. */
    GpuKvLimit gpuKvLimit() {
        return gpuKvLimit;
    }

    /** The limit of a draft that keeps GPU blocks free: as that has found it, or as it was last found; else none. */
    GpuKvLimit gpuKvLimitInForce(StepDraft draft) {
        if (draft.gpuBlocksKeptFree() == 0) {
            return GpuKvLimit.NONE;
        }
        GpuKvLimit found = draft.foundGpuKvLimit();
        return found != null ? found : gpuKvLimit;
    }

    /** Whether {@link GpuKvLimit} is to be found anew. */
    boolean gpuKvLimitIsDue() {
        return sinceGpuKvLimit >= refresh;
    }

    /** Whether the sequence's target per token is no shorter than that of requests that bring none. */
    boolean toleratesDefaultTarget(Sequence sequence) {
        return target(sequence) >= defaultTargets.perTokenNanos();
    }

    private long target(Sequence sequence) {
        return sequence.request().targets().or(defaultTargets).perTokenNanos();
    }

    /** Whether a host sequence missed its target per token when the host was last measured. */
    boolean missesTargets() {
        return missesTargets;
    }

    /** Whether more than half of the sequence's target for its first token has passed. */
    boolean isUrgent(Sequence sequence, long now) {
        long target = sequence.request().targets().or(defaultTargets).firstTokenNanos();
        return target > 0 && now - sequence.timings().arrivedNanos() > target / 2;
    }

    /** Exchanges one host sequence that is due with the GPU sequence that has had most tokens there. */
    void rotate(StepDraft draft, HostPace pace) {
        if (sinceRotation < refresh) {
            return;
        }
        draft.noteRotation();
        SchedulerState state = draft.state();
        Sequence due = longestDue(state);
        if (due == null) {
            return;
        }
        Sequence leaving = longestOnGpu(draft, pace);
        if (leaving == null || !fits(draft, due, leaving)) {
            return;
        }
        int index = indexOf(draft, leaving);
        if (index < 0) {
            return;
        }
        draft.replace(index, due, AttentionSite.GPU_FROM_GPU);
    }

    /**
     * Counts a completed step, whichever policy drafted it.
     *
     * @param seconds that the step took; 0 where that is not known
     */
    void completed(StepDraft draft, double seconds) {
        if (seconds > 0) {
            meanStepSeconds += (meanStepSeconds == 0 ? 1 : MEAN_WEIGHT) * (seconds - meanStepSeconds);
        }
        queue.completed(draft.state());
        steps++;
        hostTokens += draft.load(0).cpuRows() + draft.load(1).cpuRows();
        sequenceSteps += draft.state().host().size();
        hadInFlight |= !draft.state().inFlight().isEmpty();
        sinceRotation = draft.notesRotation() ? 0 : sinceRotation + 1;
        GpuKvLimit found = draft.foundGpuKvLimit();
        if (found != null) {
            sinceGpuKvLimit = 0;
            gpuKvLimit = found;
            gpuBlocksKeptFree = draft.gpuBlocksKeptFree();
        } else {
            sinceGpuKvLimit = Math.min(refresh, sinceGpuKvLimit + 1);
        }
        if (untilMeasurement-- == 0) {
            untilMeasurement = refresh - 1;
            measure(draft.state());
        }
    }

    /** Measures the host; a token that is still in flight counts with the time that it has taken so far. */
    private void measure(SchedulerState state) {
        double perToken = mean(List.of(state.host(), state.inFlight()), state.now());
        hostNanosPerToken = perToken > 0 ? perToken : hostNanosPerToken;
        missesTargets = isLate(state.host(), perToken) || isLate(state.inFlight(), perToken);
        // sequences that were late for long stay late by their mean, however fast the host is since (ADR 142)
        boolean late = missesTargets && (hadInFlight || isLate(state.host(), recentNanosPerToken(state.now())));
        if (!late) {
            correction = Math.max(1, correction / SHRINKAGE);
        } else if (hadInFlight || state.waiting().isEmpty() || entered(state)) {
            correction = Math.min(MAX_CORRECTION, correction * GROWTH);
        }
        measuredNanos = state.now();
        steps = 0;
        sequenceSteps = 0;
        hostTokens = 0;
        hadInFlight = !state.inFlight().isEmpty();
    }

    /**
     * Nanoseconds between two tokens of a sequence on the host since the last measurement, if all took turns; infinite
     * if none had a token. Tokens in flight do not count, so it holds only where there were none.
     */
    private double recentNanosPerToken(long now) {
        return hostTokens == 0
                ? Double.POSITIVE_INFINITY
                : (now - measuredNanos) * ((double) sequenceSteps / steps) / hostTokens;
    }

    /**
     * Whether a sequence has entered the host since the last measurement, or computed its prompt there. While requests
     * wait and none enters, a larger correction keeps no more of them off the host, and later it would for minutes (ADR
     * 145).
     */
    private boolean entered(SchedulerState state) {
        for (Sequence sequence : state.host()) {
            if (sequence.tiers().enteredNanos() >= measuredNanos) {
                return true;
            }
        }
        return false;
    }

    private boolean isLate(Collection<Sequence> sequences, double perToken) {
        for (Sequence sequence : sequences) {
            if (target(sequence) > 0 && perToken > target(sequence)) {
                return true;
            }
        }
        return false;
    }

    /** Mean nanoseconds per token of sequences since they entered their tier; 0 while all have few tokens. */
    private static double mean(List<Collection<Sequence>> tiers, long now) {
        double nanos = 0;
        long tokens = 0;
        for (Collection<Sequence> tier : tiers) {
            for (Sequence sequence : tier) {
                if (sequence.tiers().tokensSinceEntry() >= MIN_TOKENS) {
                    nanos += now - sequence.tiers().enteredNanos();
                    tokens += sequence.tiers().tokensSinceEntry();
                }
            }
        }
        return tokens == 0 ? 0 : nanos / tokens;
    }

    /** The host sequence that is due for rotation and has been on the host longest; null if none is due. */
    private @Nullable Sequence longestDue(SchedulerState state) {
        Sequence found = null;
        double longest = 0;
        double gpuPerToken = maxSlowdown > 0 ? mean(List.of(state.gpu()), state.now()) : 0;
        for (Sequence sequence : state.host()) {
            if (sequence.remaining() > 1) {
                continue;
            }
            double waited = state.now() - sequence.tiers().enteredNanos();
            int tokens = sequence.tiers().tokensSinceEntry();
            boolean hasHadItsTokens = rotateAfter > 0 && tokens >= rotateAfter;
            boolean tooSlow = gpuPerToken > 0 && waited > maxSlowdown * gpuPerToken * Math.max(tokens, MIN_TOKENS);
            if ((hasHadItsTokens || tooSlow) && waited > longest) {
                longest = waited;
                found = sequence;
            }
        }
        return found;
    }

    /** The GPU sequence with most tokens there that may go to the host; null if there is none. */
    private @Nullable Sequence longestOnGpu(StepDraft draft, HostPace pace) {
        Sequence found = null;
        for (Sequence sequence : draft.state().gpu()) {
            boolean candidate = sequence.remaining() == 1 && sequence.tiers().tokensSinceEntry() >= MIN_TOKENS;
            boolean longer = found == null
                    || sequence.tiers().tokensSinceEntry() > found.tiers().tokensSinceEntry();
            if (candidate && longer && mayLiveOnHost(draft, sequence, pace)) {
                found = sequence;
            }
        }
        return found;
    }

    private static boolean fits(StepDraft draft, Sequence in, Sequence out) {
        int needed = draft.state().kv().held(KvTier.GPU, in.computed(), in.length());
        return draft.fitsHost(out) && draft.hostHasRoomFor(out) && needed <= draft.freeGpu() + draft.freedBy(out);
    }

    private static int indexOf(StepDraft draft, Sequence sequence) {
        for (int i = 0; i < draft.rows(0).size(); i++) {
            if (draft.rows(0).get(i).sequence() == sequence) {
                return i;
            }
        }
        return -1;
    }

    /** Mean nanoseconds per token on the host; 0 before it is measured. */
    public double hostNanosPerToken() {
        return hostNanosPerToken;
    }
}
