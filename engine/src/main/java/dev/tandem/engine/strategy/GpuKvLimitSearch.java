package dev.tandem.engine.strategy;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.GpuKvLimit;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.SpeedupEstimate.Kind;
import java.util.List;
import java.util.Locale;

/**
 * Finds how much KV the GPU is to hold while requests wait and there is a target per token (ADRs 141 and 142).
 *
 * <p>Two sub-batches take as long as the GPU does. A host token adds a row to the GPU's GEMMs; a GPU decode adds its
 * attention besides, which on a small card takes several times as long. So within a target, two sub-batches may do more
 * with fewer tokens of context on the GPU and more sequences on the host, while the CPU's attention hides.
 */
final class GpuKvLimitSearch {
    /**
     * Min gain over a full GPU, as a fraction, for which a limit begins, within the error of predictions. One that was
     * found, in force or not, ends where there is no gain. On imitated L4s, six simulated half hours, 0 and 0.1 change
     * throughput by at most 2 %, and on five described machines nothing (trial builds of c20a318).
     */
    private static final double MIN_GAIN = 0.05;

    private GpuKvLimitSearch() {}

    /**
     * The limit with which both tiers are predicted to do most.
     *
     * @param decodes a draft with the GPU's decodes, at least one, of a state in which requests wait
     */
    static GpuKvLimit find(StepDraft decodes, Pipeline pipeline) {
        SchedulerState state = decodes.state();
        TierRules rules = pipeline.rules();
        long target = rules.defaultTargets().perTokenNanos();
        // without the correction the GPU keeps room free for a host that late requests keep closed (ADR 145)
        SpeedupEstimate two = new SpeedupEstimate(
                pipeline.predictor(), Kind.HOST_TOKENS_IN_BOTH, (long) (target / rules.correction()));
        SpeedupEstimate one = new SpeedupEstimate(pipeline.predictor(), Kind.SAME_LAYER, target);
        Sequence next = state.waiting().first();
        int context = (int) Math.max(1, decodes.expectedHostContext(List.of(next)) / (decodes.hostSequences() + 1));
        int pool = state.kv().pool(KvTier.GPU).size();
        int blocks = Math.max(1, state.kv().maxHeld(KvTier.GPU, context));
        int sequencesOfAll =
                decodes.gpuSequences() + state.host().size() + state.waiting().size();
        int full = Math.max(1, Math.min(pool / blocks, Math.min(decodes.budget().maxSequences(), sequencesOfAll)));
        double gpuOnly = two.gpuOnlyRate(full, context);
        double ofFull = Math.max(
                two.rate(decodes, full, context).rate(),
                one.rate(decodes, full, context).rate());
        double bestRate = ofFull * (rules.gpuKvLimit().freeBlocks() > 0 ? 1 : 1 + MIN_GAIN);
        GpuKvLimit best = GpuKvLimit.NONE;
        for (int sequences = full - 1; sequences >= 1; sequences -= Math.max(1, sequences / 8)) {
            SpeedupEstimate.Rate rate = two.rate(decodes, sequences, context);
            if (rate.rate() > bestRate) {
                bestRate = rate.rate();
                best = new GpuKvLimit(
                        pool - sequences * blocks,
                        (long) sequences * context,
                        rate.hostTokens(),
                        bestRate / gpuOnly - 1);
            }
        }
        return best;
    }

    /**
     * What the decision log says of a draft that keeps GPU blocks free.
     *
     * @param other what it says besides; empty for nothing
     */
    static String note(StepDraft draft, String other) {
        String limit = String.format(
                Locale.ROOT,
                "%,d of %,d GPU blocks stay free, because more sequences on the host do more within the target",
                draft.gpuBlocksKeptFree(),
                draft.state().kv().pool(KvTier.GPU).size());
        return other.isEmpty() ? limit : limit + "; " + other;
    }
}
