package dev.tandem.engine.strategy;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import dev.tandem.engine.step.AttentionSite;

/**
 * Seconds that a step will take. T = T_prl + T_tr + T_pol (NEO §3.2): pre-layer, transformer layers, post-layer.
 *
 * <p>Owned by: engine thread.
 */
public final class StepPredictor {
    /** Rows beyond which each costs the same. */
    private static final int LONG_PROMPT = 512;

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

    /** By which steps are predicted. */
    public CostModel cost() {
        return cost;
    }

    /** T_l of a batch. */
    public double linear(Load load) {
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
    public double gpuOnly(Load load) {
        return ends(load.rows(), load.outputs()) + cost.layers() * (linear(load) + gpuAttention(load));
    }

    /** One batch; the GPU waits for the CPU at each layer (NEO, Figure 3). */
    double offload(Load load) {
        return gpuOnly(load) + cost.layers() * (cpuAttention(load) + cost.tripOverhead());
    }

    /** Two batches that take turns layer by layer (NEO §3.2). */
    public double pipeline(Load zero, Load one) {
        return ends(zero.rows() + one.rows(), zero.outputs() + one.outputs())
                + cost.layers() * layer(stages(zero, one), cpuAttention(zero), cpuAttention(one));
    }

    /** Likewise, with a host token of so much context more in one of the batches. */
    double pipelineWith(Load zero, Load one, int batch, int context) {
        double cpu0 = batch == 0 ? cpuAttentionWith(zero, context) : cpuAttention(zero);
        double cpu1 = batch == 1 ? cpuAttentionWith(one, context) : cpuAttention(one);
        return ends(zero.rows() + one.rows() + 1, zero.outputs() + one.outputs() + 1)
                + cost.layers() * layer(stagesWith(zero, one, batch), cpu0, cpu1);
    }

    /** With a host token more in one of the batches. */
    private Stages stagesWith(Load zero, Load one, int batch) {
        return stages(
                cost.linear(zero.rows() + 1 - batch),
                cost.linear(one.rows() + batch) + gpuAttention(zero) + gpuAttention(one));
    }

    private Stages stages(Load zero, Load one) {
        return stages(linear(zero), linear(one) + gpuAttention(zero) + gpuAttention(one));
    }

    private Stages stages(double first, double second) {
        return new Stages(first, second, cost.stageOverhead(), cost.tripOverhead());
    }

    private double layer(Stages stages, double cpu0, double cpu1) {
        return overlaps ? stages.layer(cpu0, cpu1) : stages.gpu() + cpu0 + cpu1;
    }

    /** NEO's slack conditions: whether the GPU waits for neither batch. */
    boolean hides(Load zero, Load one) {
        Stages stages = stages(zero, one);
        double cpu0 = cpuAttention(zero);
        double cpu1 = cpuAttention(one);
        return stages.hideZero(cpu0) && stages.hideOne(cpu1) && stages.cpuKeepsUp(cpu0, cpu1);
    }

    /**
     * Whether a host token of so much context more in batch 0 leaves its condition true, and makes a layer no longer.
     */
    boolean hidesInZero(Load zero, Load one, int context) {
        Stages stages = stagesWith(zero, one, 0);
        double cpu0 = cpuAttentionWith(zero, context);
        return stages.hideZero(cpu0) && stages.cpuKeepsUp(cpu0, cpuAttention(one));
    }

    /** Likewise in batch 1. */
    boolean hidesInOne(Load zero, Load one, int context) {
        Stages stages = stagesWith(zero, one, 1);
        double cpu1 = cpuAttentionWith(one, context);
        return stages.hideOne(cpu1) && stages.cpuKeepsUp(cpuAttention(zero), cpu1);
    }

    private double cpuAttentionWith(Load load, int context) {
        return cost.cpuAttention(load.cpuRows() + 1, load.cpuTokens() + context);
    }

    /**
     * One batch with host tokens passing through (APEX §3.3): each host token takes part in one layer per step, so a
     * layer has a share of them; where tiers overlap it computes all its slots, taken or not.
     *
     * @param inFlight in-flight tokens, those just admitted included
     * @param inFlightContextTokens their context
     * @param slots of each layer
     */
    double async(Load load, int inFlight, long inFlightContextTokens, int slots) {
        return async(load.rows(), load.outputs(), gpuAttention(load), inFlight, inFlightContextTokens, slots);
    }

    /** Decode rows alone: {@code rows} of the GPU over {@code tokens} together. */
    double async(int rows, long tokens, int inFlight, long inFlightContextTokens, int slots) {
        return async(rows, rows, cost.gpuAttention(tokens), inFlight, inFlightContextTokens, slots);
    }

    private double async(
            int rows, int outputs, double gpuAttention, int inFlight, long inFlightContextTokens, int slots) {
        int share = (inFlight + cost.layers() - 1) / cost.layers();
        int aLayer = overlaps ? Math.max(share, slots) : share;
        double gpu =
                ends(rows + aLayer, outputs + aLayer) + cost.layers() * (cost.linear(rows + aLayer) + gpuAttention);
        return overlaps ? gpu * cost.hostLoad() : gpu + cost.cpuAttention(inFlight, inFlightContextTokens);
    }

    /** A GPU-only step of decode rows over {@code tokens} of context together. */
    double decodes(int rows, long tokens) {
        return mixed(rows, tokens, 0, 0);
    }

    /** Likewise with rows of prompts, which attend to {@code pairs} of row and token. */
    double mixed(int rows, long tokens, int promptRows, long pairs) {
        return ends(rows, rows)
                + cost.layers()
                        * (cost.linear(rows + promptRows) + cost.gpuAttention(tokens) + cost.prefillAttention(pairs));
    }

    /** Seconds of GPU-only for a token of one of the load's decode rows, or of the only one where it has none. */
    public double secondsPerToken(Load load) {
        int rows = Math.max(1, load.gpuRows());
        return decodes(rows, load.gpuTokens()) / rows;
    }

    /** A step of GPU rows and rows of prompts in one sub-batch and host tokens in the other. */
    double pipelined(int rows, long tokens, int hostTokens, int hostContext, int promptRows, long pairs) {
        double attention = cost.cpuAttention(hostTokens, (long) hostTokens * hostContext);
        double second = cost.linear(Math.max(1, hostTokens)) + cost.gpuAttention(tokens) + cost.prefillAttention(pairs);
        return ends(rows + hostTokens, rows + hostTokens)
                + cost.layers() * layer(stages(cost.linear(rows + promptRows), second), 0, attention);
    }

    /**
     * What a step gets done.
     *
     * @param promptSeconds that GPU-only would need for its prompts, in long steps
     * @param tokens of decode rows; an in-flight token does a layer's share of one
     */
    public record Work(double promptSeconds, double tokens) {
        /**
         * Seconds of GPU-only.
         *
         * @param secondsPerToken seconds of GPU-only for a token of a decode row
         */
        public double normalisedWork(double secondsPerToken) {
            return promptSeconds + tokens * secondsPerToken;
        }
    }

    /** What a draft gets done. */
    public Work work(StepDraft draft) {
        double tokens =
                (double) (draft.state().inFlight().size() + draft.admissions().size()) / cost.layers();
        double seconds = 0;
        for (int batch = 0; batch < 2; batch++) {
            Load load = draft.load(batch);
            int decodes = load.gpuRows() + load.cpuRows();
            tokens += decodes;
            seconds += cost.layers()
                    * (cost.linear(LONG_PROMPT) / LONG_PROMPT * (load.rows() - decodes)
                            + cost.prefillAttention(load.prefillPairs()));
        }
        return new Work(seconds, tokens);
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
                int inFlight =
                        draft.state().inFlight().size() + draft.admissions().size();
                long tokens = draft.admittedTokens();
                for (Sequence sequence : draft.state().inFlight()) {
                    tokens += sequence.length();
                }
                yield async(draft.load(0), inFlight, tokens, inFlight == 0 ? 0 : draft.slots());
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

    /** A batch without the decode rows that the CPU reads. */
    public static Load withoutCpuRows(StepDraft draft, int batch) {
        Load load = new Load();
        for (Row row : draft.rows(batch)) {
            if (row.site() != AttentionSite.CPU_FROM_HOST) {
                load.add(row, 1);
            }
        }
        return load;
    }
}
