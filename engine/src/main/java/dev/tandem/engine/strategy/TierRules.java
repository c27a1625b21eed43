package dev.tandem.engine.strategy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import java.util.Collection;
import java.util.List;

/**
 * Who may be on the slow tier, and for how long: latency targets keep requests off the host, and requests rotate
 * between the tiers so that none stays slow for ever. The papers have neither; without targets and rotation every rule
 * is neutral.
 *
 * <p>Owned by: engine thread.
 */
public final class TierRules {
    /**
     * Steps between two looks at the host's time per token, and between two attempts at a rotation: either scans a
     * tier.
     */
    private static final int REFRESH = 32;
    /** Tokens from which a sequence's own time per token means something. */
    private static final int SOME = 4;
    /**
     * Steps without a host token after which what was measured is no longer believed: some minutes. A probe holds one
     * sequence on the host for a few tokens, some hundred steps; were it much more frequent, that would show in
     * throughput.
     */
    private static final int PROBE_AFTER = 16_384;

    private final LatencyTargets server;
    private final int rotateAfter;
    private final double maxSlowdown;
    private final int refresh;
    private double hostPerToken;
    private boolean missesTargets;
    private int sinceMeasured;
    private int untilLook;
    private int sinceRotation;

    /**
     * @param server targets of requests that bring none
     * @param rotateAfter tokens after which a host sequence may change places with a GPU sequence; 0 never
     * @param maxSlowdown times the GPU's time per token beyond which a host sequence is due at once; 0 never
     */
    public TierRules(LatencyTargets server, int rotateAfter, double maxSlowdown) {
        this(server, rotateAfter, maxSlowdown, REFRESH);
    }

    /** @param refresh steps between two looks, and between two rotations */
    public TierRules(LatencyTargets server, int rotateAfter, double maxSlowdown, int refresh) {
        if (rotateAfter < 0) {
            throw new ConfigurationException("--rotate-after " + rotateAfter + " must not be negative; 0 turns it off");
        }
        if (!(maxSlowdown >= 0)) {
            throw new ConfigurationException(
                    "--max-host-slowdown " + maxSlowdown + " must be a number, 0 or more; 0 turns it off");
        }
        this.server = server;
        this.rotateAfter = rotateAfter;
        this.maxSlowdown = maxSlowdown;
        this.refresh = refresh;
        this.sinceRotation = refresh;
    }

    /** As in the papers. */
    public static TierRules neutral() {
        return new TierRules(LatencyTargets.NONE, 0, 0);
    }

    /** Targets of requests that bring none. */
    public LatencyTargets server() {
        return server;
    }

    /**
     * Whether the host is as fast as the sequence wants. While that is unknown, or was measured long ago, the host
     * takes one sequence with a target, by which it is measured.
     */
    boolean mayLiveOnHost(StepDraft draft, Sequence sequence) {
        long target = target(sequence);
        return target == 0 || hostPerToken > 0 && hostPerToken <= target || probes(draft);
    }

    private long target(Sequence sequence) {
        return sequence.request().targets().or(server).perTokenNanos();
    }

    private boolean probes(StepDraft draft) {
        SchedulerState state = draft.state();
        return (hostPerToken == 0 || sinceMeasured >= PROBE_AFTER)
                && state.host().isEmpty()
                && state.inFlight().isEmpty()
                && draft.outs().isEmpty()
                && draft.load(0).prefillOffloadTokens() == 0;
    }

    /** Whether a sequence on the host gets its tokens later than it wants, as of the last look. */
    boolean missesTargets() {
        return missesTargets;
    }

    /** Whether more than half of the time to its first token is gone. */
    boolean isUrgent(Sequence sequence, long now) {
        long target = sequence.request().targets().or(server).firstTokenNanos();
        return target > 0 && now - sequence.timings().arrivedNanos() > target / 2;
    }

    /** Lets one host sequence that is due change places with the GPU sequence that was there longest. */
    void rotate(StepDraft draft) {
        if (sinceRotation < refresh) {
            return;
        }
        draft.noteRotation();
        SchedulerState state = draft.state();
        Sequence due = maxDue(state);
        Sequence host = due == null ? null : longestOnGpu(draft);
        if (host == null || !fits(draft, due, host)) {
            return;
        }
        int index = indexOf(draft, host);
        if (index < 0) {
            return;
        }
        draft.replace(index, host, due, AttentionSite.GPU_FROM_GPU);
    }

    /** Counts a step that was made of a draft, whichever policy made the draft. */
    void completed(StepDraft draft) {
        sinceRotation = draft.notesRotation() ? 0 : sinceRotation + 1;
        if (untilLook-- == 0) {
            untilLook = refresh - 1;
            look(draft.state());
        }
    }

    /** Tokens that are on their way count with the time that they have taken so far. */
    private void look(SchedulerState state) {
        double perToken = mean(List.of(state.host(), state.inFlight()), state.now());
        sinceMeasured = perToken > 0 ? 0 : Math.min(PROBE_AFTER, sinceMeasured + refresh);
        hostPerToken = perToken > 0 ? perToken : hostPerToken;
        missesTargets = false;
        for (Sequence sequence : state.host()) {
            missesTargets |= target(sequence) > 0 && hostPerToken > target(sequence);
        }
        for (Sequence sequence : state.inFlight()) {
            missesTargets |= target(sequence) > 0 && hostPerToken > target(sequence);
        }
    }

    /** Nanoseconds per token that sequences have got since they are where they are; 0 as long as all have few. */
    private static double mean(List<Collection<Sequence>> tiers, long now) {
        double nanos = 0;
        long tokens = 0;
        for (Collection<Sequence> tier : tiers) {
            for (Sequence sequence : tier) {
                if (sequence.tiers().tokensSinceEntry() >= SOME) {
                    nanos += now - sequence.tiers().enteredNanos();
                    tokens += sequence.tiers().tokensSinceEntry();
                }
            }
        }
        return tokens == 0 ? 0 : nanos / tokens;
    }

    private Sequence maxDue(SchedulerState state) {
        Sequence max = null;
        double longest = 0;
        double gpuPerToken = maxSlowdown > 0 ? mean(List.of(state.gpu()), state.now()) : 0;
        for (Sequence sequence : state.host()) {
            if (sequence.remaining() > 1) {
                continue;
            }
            double waited = state.now() - sequence.tiers().enteredNanos();
            int tokens = sequence.tiers().tokensSinceEntry();
            boolean tokensUp = rotateAfter > 0 && tokens >= rotateAfter;
            boolean tooSlow = gpuPerToken > 0 && waited > maxSlowdown * gpuPerToken * Math.max(tokens, SOME);
            if ((tokensUp || tooSlow) && waited > longest) {
                longest = waited;
                max = sequence;
            }
        }
        return max;
    }

    private Sequence longestOnGpu(StepDraft draft) {
        Sequence max = null;
        for (Sequence sequence : draft.state().gpu()) {
            boolean candidate = sequence.remaining() == 1 && sequence.tiers().tokensSinceEntry() >= SOME;
            boolean longer = max == null
                    || sequence.tiers().tokensSinceEntry() > max.tiers().tokensSinceEntry();
            if (candidate && longer && mayLiveOnHost(draft, sequence)) {
                max = sequence;
            }
        }
        return max;
    }

    private static boolean fits(StepDraft draft, Sequence in, Sequence out) {
        int needed = draft.state().kv().blocksFor(KvTier.GPU, in.length());
        return draft.fitsHost(out)
                && draft.hostHasRoomFor(out)
                && needed <= draft.freeGpu() + out.table().count();
    }

    private static int indexOf(StepDraft draft, Sequence sequence) {
        for (int i = 0; i < draft.rows(0).size(); i++) {
            if (draft.rows(0).get(i).sequence() == sequence) {
                return i;
            }
        }
        return -1;
    }

    /** Mean nanoseconds a token on the host, 0 before any is known. */
    public double hostPerToken() {
        return hostPerToken;
    }
}
