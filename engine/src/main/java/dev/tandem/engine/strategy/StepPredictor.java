package dev.tandem.engine.strategy;

import dev.tandem.engine.batch.KvReader;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;

/**
 * Seconds that a step will take. T = T_prl + T_tr + T_pol (NEO §3.2): pre-layer, transformer layers, post-layer.
 *
 * <p>Owned by: engine thread.
 */
public final class StepPredictor {
    private final CostModel cost;
    private final boolean overlaps;
    private final long kvBytesPerToken;

    /**
     * @param overlaps whether the CPU's attention runs beside the GPU's work; the papers assume it, an executor whose
     *     tiers share the same cores does not do it
     * @param kvBytesPerToken of all layers; 0 leaves swaps out, as the papers do
     */
    public StepPredictor(CostModel cost, boolean overlaps, long kvBytesPerToken) {
        this.cost = cost;
        this.overlaps = overlaps;
        this.kvBytesPerToken = kvBytesPerToken;
    }

    CostModel cost() {
        return cost;
    }

    /** T_l of a batch. */
    double linear(Load load) {
        return cost.linear(load.rows());
    }

    /** T_ga of a batch: the GPU's attention, prefills' included. */
    double gpuAttention(Load load) {
        return cost.gpuAttention(load.gpuTokens()) + cost.prefillAttention(load.prefillPairs());
    }

    /** T_ca of a batch. */
    double cpuAttention(Load load) {
        return cost.cpuAttention(load.cpuRows(), load.cpuTokens());
    }

    /** One batch on the GPU alone. */
    double gpuOnly(Load load) {
        return ends(load.rows(), load.outputs()) + cost.layers() * (linear(load) + gpuAttention(load));
    }

    /** One batch; the GPU waits for the CPU at each layer (NEO, Figure 3). */
    double offload(Load load) {
        return gpuOnly(load) + cost.layers() * (cpuAttention(load) + 2 * cost.stageOverhead());
    }

    /**
     * NEO §3.2: {@code L * (max(T_l0, T_ca1) + max(T_l1 + T_ga0, T_ca0))}; both batches' GPU attention is in the
     * second stage, of which batch 1 has none.
     */
    double pipeline(Load zero, Load one) {
        double first = linear(zero);
        double second = linear(one) + gpuAttention(zero) + gpuAttention(one);
        double layer = overlaps
                ? Math.max(first, cpuAttention(one)) + Math.max(second, cpuAttention(zero))
                : first + second + cpuAttention(one) + cpuAttention(zero);
        return ends(zero.rows() + one.rows(), zero.outputs() + one.outputs())
                + cost.layers() * (layer + 2 * cost.stageOverhead());
    }

    /**
     * One batch with host rows passing through (APEX §3.3): each host row takes part in one layer a step, so a layer
     * has a share of them; where tiers overlap it computes all its slots, taken or not.
     *
     * @param flying rows in flight, those just admitted included
     * @param flyingTokens their context
     * @param slots of each layer
     */
    double async(Load load, int flying, long flyingTokens, int slots) {
        int share = (flying + cost.layers() - 1) / cost.layers();
        int aLayer = overlaps ? Math.max(share, slots) : share;
        double gpu = ends(load.rows() + aLayer, load.outputs() + aLayer)
                + cost.layers() * (cost.linear(load.rows() + aLayer) + gpuAttention(load));
        return overlaps ? gpu * cost.hostLoad() : gpu + cost.cpuAttention(flying, flyingTokens);
    }

    private double ends(int rows, int outputs) {
        return cost.preLayer(rows) + cost.postLayer(outputs) + cost.stepOverhead();
    }

    /** The draft's time by its shape, with its swaps. */
    public double of(StepDraft draft) {
        double seconds = switch (draft.shape()) {
            case GPU_ONLY -> gpuOnly(draft.load(0));
            case OFFLOAD -> offload(draft.load(0));
            case PIPELINE -> pipeline(draft.load(0), draft.load(1));
            case ASYNC -> {
                int flying = draft.state().inFlight().size() + draft.admissions().size();
                long tokens = draft.admittedTokens();
                for (Sequence sequence : draft.state().inFlight()) {
                    tokens += sequence.length();
                }
                yield async(draft.load(0), flying, tokens, flying == 0 ? 0 : draft.slots());
            }
        };
        return seconds + swaps(draft);
    }

    private double swaps(StepDraft draft) {
        if (kvBytesPerToken == 0 || draft.outs().isEmpty() && draft.ins().isEmpty()) {
            return 0;
        }
        long tokens = 0;
        for (Sequence sequence : draft.outs()) {
            tokens += sequence.computed();
        }
        for (Sequence sequence : draft.ins()) {
            tokens += sequence.computed();
        }
        return cost.transfer(tokens * kvBytesPerToken);
    }

    /** Requests that the draft brings, x of NEO §3.2; a row in flight brings one in as many steps as there are layers. */
    double requests(StepDraft draft) {
        double flights = (double) (draft.state().inFlight().size() + draft.admissions().size()) / cost.layers();
        return draft.load(0).requests() + draft.load(1).requests() + flights;
    }

    /** A batch without the decode rows that the CPU reads. */
    static Load withoutCpuRows(StepDraft draft, int batch) {
        Load load = new Load();
        for (Row row : draft.rows(batch)) {
            if (row.reader() != KvReader.CPU_FROM_HOST) {
                load.add(row, 1);
            }
        }
        return load;
    }
}
