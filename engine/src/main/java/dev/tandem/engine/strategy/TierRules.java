package dev.tandem.engine.strategy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.Place;
import dev.tandem.engine.batch.KvReader;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import java.util.Collection;

/**
 * Who may be on the slow tier, and for how long: latency targets keep requests off the host, and requests rotate
 * between the tiers so that none stays slow for ever. The papers have neither; without targets and rotation every rule
 * is neutral.
 *
 * <p>Owned by: engine thread.
 */
public final class TierRules {
    /** Time per token is averaged over the tiers once in so many steps. */
    private static final int REFRESH = 32;
    /** Tokens from which a sequence's own time per token means something. */
    private static final int SOME = 4;

    private final LatencyTargets server;
    private final int rotateAfter;
    private final double mostSlowdown;
    private double gpuPerToken;
    private double hostPerToken;
    private int untilRefresh;

    /**
     * @param server targets of requests that bring none
     * @param rotateAfter tokens after which a host sequence may change places with a GPU sequence; 0 never
     * @param mostSlowdown times the GPU's time per token beyond which a host sequence is due at once; 0 never
     */
    public TierRules(LatencyTargets server, int rotateAfter, double mostSlowdown) {
        if (rotateAfter < 0 || !(mostSlowdown >= 0)) {
            throw new ConfigurationException("--rotate-after " + rotateAfter + " and --max-host-slowdown " + mostSlowdown
                    + " must not be negative; 0 turns them off");
        }
        this.server = server;
        this.rotateAfter = rotateAfter;
        this.mostSlowdown = mostSlowdown;
    }

    /** As in the papers. */
    public static TierRules neutral() {
        return new TierRules(LatencyTargets.NONE, 0, 0);
    }

    /** Whether the host is as fast as the sequence wants; nobody knows before the first host row. */
    boolean mayLiveOnHost(Sequence sequence) {
        long target = sequence.request().targets().or(server).perTokenNanos();
        return target == 0 || hostPerToken <= target;
    }

    /** Whether more than half of the time to its first token is gone. */
    boolean isUrgent(Sequence sequence, long now) {
        long target = sequence.request().targets().or(server).firstTokenNanos();
        return target > 0 && now - sequence.arrivedNanos() > target / 2;
    }

    /** Lets one host sequence that is due change places with the GPU sequence that was there longest. */
    void rotate(StepDraft draft) {
        if (untilRefresh-- > 0) {
            return;
        }
        untilRefresh = REFRESH;
        SchedulerState state = draft.state();
        gpuPerToken = mean(state.gpu(), state.now(), gpuPerToken);
        hostPerToken = mean(state.host(), state.now(), hostPerToken);
        Sequence due = mostDue(state);
        Sequence host = due == null ? null : longestOnGpu(state);
        if (host == null || !fits(draft, due, host)) {
            return;
        }
        int index = indexOf(draft, host);
        if (index < 0) {
            return;
        }
        draft.replace(index, host, due, KvReader.GPU_FROM_GPU);
    }

    private static double mean(Collection<Sequence> sequences, long now, double otherwise) {
        double nanos = 0;
        long tokens = 0;
        for (Sequence sequence : sequences) {
            if (sequence.tokensSincePlaced() >= SOME) {
                nanos += now - sequence.placedNanos();
                tokens += sequence.tokensSincePlaced();
            }
        }
        return tokens == 0 ? otherwise : nanos / tokens;
    }

    private Sequence mostDue(SchedulerState state) {
        Sequence most = null;
        double longest = 0;
        for (Sequence sequence : state.host()) {
            if (sequence.remaining() > 1) {
                continue;
            }
            double waited = state.now() - sequence.placedNanos();
            int tokens = sequence.tokensSincePlaced();
            boolean tokensUp = rotateAfter > 0 && tokens >= rotateAfter;
            boolean tooSlow = mostSlowdown > 0 && gpuPerToken > 0 && waited > mostSlowdown * gpuPerToken * Math.max(tokens, SOME);
            if ((tokensUp || tooSlow) && waited > longest) {
                longest = waited;
                most = sequence;
            }
        }
        return most;
    }

    private Sequence longestOnGpu(SchedulerState state) {
        Sequence most = null;
        for (Sequence sequence : state.gpu()) {
            boolean candidate = sequence.remaining() == 1 && sequence.tokensSincePlaced() >= SOME && mayLiveOnHost(sequence);
            if (candidate && (most == null || sequence.tokensSincePlaced() > most.tokensSincePlaced())) {
                most = sequence;
            }
        }
        return most;
    }

    private static boolean fits(StepDraft draft, Sequence in, Sequence out) {
        int needed = draft.state().kv().blocksFor(Place.GPU, in.length());
        return draft.fitsHost(out) && draft.hostHasRoomFor(out) && needed <= draft.freeGpu() + out.table().count();
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
