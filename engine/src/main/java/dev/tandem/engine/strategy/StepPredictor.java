package dev.tandem.engine.strategy;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import dev.tandem.engine.step.AttentionSite;

/**
 * Predicts the seconds that a step takes: T = T_prl + T_tr + T_pol (NEO §3.2), for pre-layer, transformer layers and
 * post-layer.
 *
 * <p>Owned by: engine thread.
 */
public final class StepPredictor {
    /** Rows of a GEMM from which each further row costs the same. */
    private static final int LONG_PROMPT = 512;

    private final CostModel cost;
    private final boolean overlaps;
    private final long kvBytesPerToken;
    /** Whether predictions include the work before and after the layers, and the last layer's wait of a pipeline. */
    private final boolean ends;

    /**
     * Creates a predictor.
     *
     * @param cost of the components of a step
     * @param overlaps whether the CPU's attention overlaps the GPU's work; true in the papers, false for an executor
     *     whose tiers share the same cores
     * @param kvBytesPerToken of all layers; 0 leaves swaps out, as the papers do
     */
    public StepPredictor(CostModel cost, boolean overlaps, long kvBytesPerToken) {
        this(cost, overlaps, kvBytesPerToken, true);
    }

    private StepPredictor(CostModel cost, boolean overlaps, long kvBytesPerToken, boolean ends) {
        this.cost = cost;
        this.overlaps = overlaps;
        this.kvBytesPerToken = kvBytesPerToken;
        this.ends = ends;
    }

    /** A predictor of the layers alone: T is estimated by T_tr (NEO §3.2). */
    public StepPredictor ofLayers() {
        return new StepPredictor(cost, overlaps, kvBytesPerToken, false);
    }

    /** The cost model behind the predictions. */
    public CostModel cost() {
        return cost;
    }

    /** T_l of a sub-batch: the GEMMs of one layer. */
    public double linear(Load load) {
        return cost.linear(load.rows());
    }

    /** T_ga of a sub-batch: the GPU's attention in one layer, with that of prefills. */
    double gpuAttention(Load load) {
        return cost.gpuAttention(load.gpuTokens()) + cost.prefillAttention(load.prefillPairs());
    }

    /** T_ca of a sub-batch: the CPU's attention in one layer. */
    double cpuAttention(Load load) {
        return cost.cpuAttention(load.cpuRows(), load.cpuTokens());
    }

    /** Seconds of a step of one batch on the GPU alone. */
    public double gpuOnly(Load load) {
        return outsideLayers(load.rows(), load.outputs()) + cost.layers() * (linear(load) + gpuAttention(load));
    }

    /**
     * Seconds of a step of one batch with host tokens. Their q, k and v leave before the GPU's own attention, so in
     * each layer the GPU waits only for what the CPU has not done by then.
     */
    public double sameLayer(Load load) {
        return outsideLayers(load.rows(), load.outputs())
                + cost.layers()
                        * (linear(load) + sameLayerAttention(gpuAttention(load), cpuAttention(load), load.cpuRows()));
    }

    private double sameLayerAttention(double gpu, double cpu, int hostTokens) {
        if (cpu == 0) {
            return gpu;
        }
        return overlaps
                ? Math.max(gpu + sameLayerOverhead(hostTokens), cpu + cost.tripOverhead())
                : gpu + cpu + cost.tripOverhead();
    }

    private double sameLayerOverhead(int hostTokens) {
        return cost.stageOverhead() + hostTokens * cost.tokenOverhead();
    }

    /** Seconds of a step of one batch in which the GPU waits for the CPU's attention; 0 where that hides. */
    double waits(Load load) {
        return cost.layers()
                * Math.max(
                        0,
                        cpuAttention(load)
                                + cost.tripOverhead()
                                - gpuAttention(load)
                                - sameLayerOverhead(load.cpuRows()));
    }

    private boolean hidesInLayer(double gpu, double cpu, int hostTokens) {
        return cpu + cost.tripOverhead() <= gpu + sameLayerOverhead(hostTokens);
    }

    /** Whether a host token of the GPU's mean context hides in the same layer beside the decodes of a batch. */
    boolean hidesOneBesideDecodes(Load load) {
        return load.gpuRows() > 0
                && hidesInLayer(
                        cost.gpuAttention(load.gpuTokens()),
                        cost.cpuAttention(1, load.gpuTokens() / load.gpuRows()),
                        1);
    }

    /** Seconds of a step of one batch whose host tokens hide in the same layer; infinite where they do not. */
    double hiddenInLayer(int rows, long tokens, int hostTokens, int hostContext, int promptRows, long pairs) {
        double gpu = cost.gpuAttention(tokens) + cost.prefillAttention(pairs);
        double cpu = cost.cpuAttention(hostTokens, (long) hostTokens * hostContext);
        return hidesInLayer(gpu, cpu, hostTokens)
                ? sameLayer(rows, tokens, hostTokens, hostContext, promptRows, pairs)
                : Double.POSITIVE_INFINITY;
    }

    /** Seconds of a step of one batch with GPU decodes, prompt tokens and same-layer tokens. */
    double sameLayer(int rows, long tokens, int hostTokens, int hostContext, int promptRows, long pairs) {
        double gpu = cost.gpuAttention(tokens) + cost.prefillAttention(pairs);
        double cpu = cost.cpuAttention(hostTokens, (long) hostTokens * hostContext);
        return outsideLayers(rows + hostTokens, rows + hostTokens)
                + cost.layers()
                        * (PiggybackedPrefill.mixed(cost::linear, rows + hostTokens, promptRows)
                                + sameLayerAttention(gpu, cpu, hostTokens));
    }

    /** Seconds of a step of two sub-batches that take turns layer by layer (NEO §3.2). */
    public double pipeline(Load zero, Load one) {
        return outsideLayers(zero.rows() + one.rows(), zero.outputs() + one.outputs())
                + layers(
                        stages(zero, one),
                        cpuAttention(zero),
                        cpuAttention(one),
                        lastWork(zero.outputs(), gpuAttention(zero)));
    }

    /** Seconds of the same step with one more host token, of {@code context} tokens, in one of the sub-batches. */
    double pipelineWith(Load zero, Load one, int batch, int context) {
        double cpu0 = batch == 0 ? cpuAttentionWith(zero, context) : cpuAttention(zero);
        double cpu1 = batch == 1 ? cpuAttentionWith(one, context) : cpuAttention(one);
        return outsideLayers(zero.rows() + one.rows() + 1, zero.outputs() + one.outputs() + 1)
                + layers(
                        stagesWith(zero, one, batch),
                        cpu0,
                        cpu1,
                        lastWork(zero.outputs() + 1 - batch, gpuAttention(zero)));
    }

    /** The stages with one more host token in one of the sub-batches. */
    private Stages stagesWith(Load zero, Load one, int batch) {
        return stages(zero, 1 - batch, one, batch);
    }

    private Stages stages(Load zero, Load one) {
        return stages(zero, 0, one, 0);
    }

    /** The stages with more host tokens in each sub-batch. */
    private Stages stages(Load zero, int moreInZero, Load one, int moreInOne) {
        return stages(
                stage(zero.rows() + moreInZero, zero.cpuRows() + moreInZero),
                stage(one.rows() + moreInOne, one.cpuRows() + moreInOne) + gpuAttention(zero) + gpuAttention(one));
    }

    private Stages stages(double first, double second) {
        return new Stages(first, second, cost.stageOverhead(), cost.tripOverhead());
    }

    /** Seconds of a sub-batch's stage without attention; {@code rows} include its host tokens. */
    private double stage(int rows, int hostTokens) {
        return cost.linear(rows) + hostTokens * cost.tokenOverhead();
    }

    /**
     * Seconds of all layers of a pipeline.
     *
     * @param behind seconds of the GPU's work after the last stage of sub-batch 1
     */
    private double layers(Stages stages, double cpu0, double cpu1, double behind) {
        if (!overlaps) {
            return cost.layers() * (stages.gpu() + cpu0 + cpu1);
        }
        return ends ? stages.layers(cost.layers(), cpu0, cpu1, behind) : cost.layers() * stages.layer(cpu0, cpu1);
    }

    /** Seconds of sub-batch 0's work in the last layer that follows the last stage of sub-batch 1. */
    private double lastWork(int outputs, double gpuAttention) {
        return gpuAttention + (outputs == 0 ? 0 : cost.linear(outputs));
    }

    /** NEO's slack conditions: whether the GPU waits for neither sub-batch. */
    boolean hides(Load zero, Load one) {
        Stages stages = stages(zero, one);
        double cpu0 = cpuAttention(zero);
        double cpu1 = cpuAttention(one);
        return stages.hideZero(cpu0) && stages.hideOne(cpu1) && stages.cpuKeepsUp(cpu0, cpu1);
    }

    /**
     * Whether the attention of one more host token, of {@code context} tokens, hides in sub-batch 0: its slack
     * condition stays true and the layer takes no longer.
     */
    boolean hidesInZero(Load zero, Load one, int context) {
        Stages stages = stagesWith(zero, one, 0);
        double cpu0 = cpuAttentionWith(zero, context);
        return stages.hideZero(cpu0) && stages.cpuKeepsUp(cpu0, cpuAttention(one));
    }

    /** Whether the attention of one more host token, of {@code context} tokens, hides in sub-batch 1. */
    boolean hidesInOne(Load zero, Load one, int context) {
        Stages stages = stagesWith(zero, one, 1);
        double cpu1 = cpuAttentionWith(one, context);
        return stages.hideOne(cpu1) && stages.cpuKeepsUp(cpuAttention(zero), cpu1);
    }

    /** What {@code T_ca0 <= T_l1 + T_ga0} leaves free, in seconds. */
    double slackInZero(Load zero, Load one) {
        return stages(zero, one).slackZero(cpuAttention(zero));
    }

    /** What {@code T_ca1 <= T_l0} leaves free, in seconds. */
    double slackInOne(Load zero, Load one) {
        return stages(zero, one).slackOne(cpuAttention(one));
    }

    private double cpuAttentionWith(Load load, int context) {
        return cost.cpuAttention(load.cpuRows() + 1, load.cpuTokens() + context);
    }

    /**
     * Seconds of a step of one batch with in-flight tokens (APEX §3.3). Each of them takes part in one layer per step,
     * so each layer has a part of them. An executor whose tiers overlap computes all slots of a layer, used or not.
     *
     * @param inFlight in-flight tokens, those just admitted included
     * @param inFlightContextTokens sum of their contexts
     * @param slots per layer
     */
    private double async(Load load, int inFlight, long inFlightContextTokens, int slots) {
        return async(load.rows(), 0, load.outputs(), gpuAttention(load), inFlight, inFlightContextTokens, slots);
    }

    /**
     * Seconds of a step with in-flight tokens that all stand at one layer: the GPU computes them at that layer alone,
     * and the CPU has the whole step for their attention (APEX §3.3).
     */
    private double cohort(Load load, int inFlight, long inFlightContextTokens) {
        double gpu = gpuOnly(load) + cost.linear(load.rows() + inFlight) - linear(load);
        return overlaps ? gpu * cost.hostLoad() : gpu + cost.cpuAttention(inFlight, inFlightContextTokens);
    }

    /** Seconds of such a step with GPU decodes and prompt tokens; on average where these take turns. */
    double async(
            int rows, long tokens, int inFlight, long inFlightContextTokens, int slots, int promptRows, long pairs) {
        double attention = cost.gpuAttention(tokens) + cost.prefillAttention(pairs);
        return async(rows, promptRows, rows, attention, inFlight, inFlightContextTokens, slots);
    }

    /** @param promptRows rows that need not be the same in all steps */
    private double async(
            int rows,
            int promptRows,
            int outputs,
            double gpuAttention,
            int inFlight,
            long inFlightContextTokens,
            int slots) {
        int occupied = (inFlight + cost.layers() - 1) / cost.layers();
        int perLayer = overlaps ? Math.max(occupied, slots) : occupied;
        double gpu = outsideLayers(rows + perLayer, outputs + perLayer)
                + cost.layers() * (PiggybackedPrefill.mixed(cost::linear, rows + perLayer, promptRows) + gpuAttention);
        return overlaps ? gpu * cost.hostLoad() : gpu + cost.cpuAttention(inFlight, inFlightContextTokens);
    }

    /** Seconds of a gpu-only step of {@code rows} decodes over {@code tokens} of context in all. */
    double decodes(int rows, long tokens) {
        return mixed(rows, tokens, 0, 0);
    }

    /**
     * Seconds of such a step with prompt tokens as well, on average where steps of different length take less time.
     *
     * @param pairs of prompt token and context token
     */
    double mixed(int rows, long tokens, int promptRows, long pairs) {
        return outsideLayers(rows, rows)
                + cost.layers()
                        * (PiggybackedPrefill.mixed(cost::linear, rows, promptRows)
                                + cost.gpuAttention(tokens)
                                + cost.prefillAttention(pairs));
    }

    /** Seconds of gpu-only per decoded token of the load; of a single decode where the load has none. */
    public double secondsPerToken(Load load) {
        int rows = Math.max(1, load.gpuRows());
        return decodes(rows, load.gpuTokens()) / rows;
    }

    /** Seconds of a step with GPU decodes and prompt tokens in one sub-batch and host tokens in the other. */
    double pipelined(int rows, long tokens, int hostTokens, int hostContext, int promptRows, long pairs) {
        double attention = cost.cpuAttention(hostTokens, (long) hostTokens * hostContext);
        double gpuAttention = cost.gpuAttention(tokens) + cost.prefillAttention(pairs);
        double second = stage(Math.max(1, hostTokens), hostTokens) + gpuAttention;
        return outsideLayers(rows + hostTokens, rows + hostTokens)
                + layers(stages(cost.linear(rows + promptRows), second), 0, attention, lastWork(rows, gpuAttention));
    }

    /**
     * Seconds of the same step with host tokens in both sub-batches, each in proportion to the stage that they hide
     * behind; times {@link CostModel#subBatchesFactor()}, because a target is kept by what steps really take.
     */
    double pipelinedInBoth(int rows, long tokens, int hostTokens, int hostContext, int promptRows, long pairs) {
        double attention = cost.gpuAttention(tokens) + cost.prefillAttention(pairs);
        double first = cost.linear(rows + promptRows);
        double second = cost.linear(Math.max(1, hostTokens / 2)) + attention;
        int one = Math.max(1, (int) (hostTokens * first / (first + second)));
        int zero = hostTokens - one;
        Stages stages = stages(stage(rows + promptRows + zero, zero), stage(one, one) + attention);
        double seconds = outsideLayers(rows + hostTokens, rows + hostTokens)
                + layers(
                        stages,
                        cost.cpuAttention(zero, (long) zero * hostContext),
                        cost.cpuAttention(one, (long) one * hostContext),
                        lastWork(rows + zero, attention));
        return cost.subBatchesFactor() * seconds;
    }

    /**
     * The work that a step does.
     *
     * @param promptSeconds that gpu-only would need for the step's prompt tokens, in long steps
     * @param tokens decoded; an in-flight token counts as one layer's part of a token
     */
    public record Work(double promptSeconds, double tokens) {
        /**
         * The seconds that gpu-only would need for this work.
         *
         * @param secondsPerToken seconds of gpu-only per decoded token
         */
        public double normalisedWork(double secondsPerToken) {
            return promptSeconds + tokens * secondsPerToken;
        }
    }

    /**
     * What a draft computes.
     *
     * @param tokens decoded; an in-flight token counts as one layer's part of a token
     * @param prompts prompt tokens
     * @param pairs of prompt token and context token
     */
    private record Computed(double tokens, int prompts, long pairs) {}

    private Computed computed(StepDraft draft) {
        double tokens =
                (double) (draft.state().inFlight().size() + draft.admissions().size()) / cost.layers();
        int prompts = 0;
        long pairs = 0;
        for (int batch = 0; batch < 2; batch++) {
            Load load = draft.load(batch);
            int decodes = load.gpuRows() + load.cpuRows();
            tokens += decodes;
            prompts += load.rows() - decodes;
            pairs += load.prefillPairs();
        }
        return new Computed(tokens, prompts, pairs);
    }

    /** The work of a draft. */
    public Work work(StepDraft draft) {
        Computed computed = computed(draft);
        return new Work(promptSeconds(computed.prompts(), computed.pairs()), computed.tokens());
    }

    /**
     * Seconds that gpu-only would need for a draft's work, in steps of the reference's decodes with an equal part of
     * the prompts in each; no more than with the prompts in long steps (ADR 112), or in its steps while requests keep
     * coming (ADR 134).
     *
     * @param uncounted decoded tokens of the draft that do not count
     * @param reference has the GPU decodes of such a step
     * @param piggybacking of gpu-only's prompts
     */
    public double gpuOnlySeconds(StepDraft draft, double uncounted, Load reference, PiggybackedPrefill piggybacking) {
        Computed computed = computed(draft);
        double tokens = computed.tokens() - uncounted;
        double decoding = tokens * secondsPerToken(reference);
        double apart = decoding + promptSeconds(computed.prompts(), computed.pairs());
        if (computed.prompts() == 0 || tokens <= 0) {
            return apart;
        }
        int rows = Math.max(1, reference.gpuRows());
        double steps = tokens / rows;
        int promptRows = (int) Math.ceil(computed.prompts() / steps);
        long pairs = (long) Math.ceil(computed.pairs() / steps);
        double beside = steps * mixed(rows, reference.gpuTokens(), promptRows, pairs);
        double steady = decoding + computed.prompts() * steadyPromptSeconds(draft, computed, reference, piggybacking);
        return Math.min(Math.min(apart, beside), steady);
    }

    /**
     * Seconds that a prompt token adds to gpu-only's decodes while requests keep coming, in the steps of most
     * throughput. These may decode less than all sequences. Infinite where gpu-only has no such steps.
     */
    private double steadyPromptSeconds(
            StepDraft draft, Computed computed, Load reference, PiggybackedPrefill piggybacking) {
        double promptTokens = SpeedupEstimate.promptTokensPerOutput(draft.state());
        int sequences = draft.state().gpu().size();
        int rows = promptTokens == 0 ? 0 : piggybacking.rows(sequences, promptTokens);
        if (rows == 0 || rows == Integer.MAX_VALUE || reference.gpuRows() == 0) {
            return Double.POSITIVE_INFINITY;
        }
        int decodes = (int) Math.max(1, Math.round(Math.min(sequences, rows / (1 + promptTokens))));
        long context = reference.gpuTokens() / reference.gpuRows();
        int promptRows = rows - decodes;
        long pairs = computed.pairs() / computed.prompts() * promptRows;
        double token = decodes(sequences, context * sequences) / sequences;
        double added = mixed(decodes, context * decodes, promptRows, pairs) - decodes * token;
        return added / promptRows;
    }

    /** Seconds that the prompt tokens of a gpu-only step add to that of its decodes. */
    public double addedByPrompts(Load load) {
        return gpuOnly(load) - (load.gpuRows() == 0 ? 0 : decodes(load.gpuRows(), load.gpuTokens()));
    }

    /** Seconds of gpu-only for prompt tokens, in long steps. */
    private double promptSeconds(int rows, long pairs) {
        return cost.layers() * (cost.linear(LONG_PROMPT) / LONG_PROMPT * rows + cost.prefillAttention(pairs));
    }

    /**
     * Whether KV is copied between the tiers in less time than gpu-only computes it.
     *
     * @param copied tokens to copy, as a mean over the layers
     * @param rows tokens that would be computed otherwise
     * @param pairs of one of these and a token that it attends to, as a mean over the layers
     */
    public boolean copyPays(int copied, int rows, long pairs) {
        return cost.transfer(copied * kvBytesPerToken) < promptSeconds(rows, pairs);
    }

    private double outsideLayers(int rows, int outputs) {
        return !ends ? 0 : cost.preLayer(rows) + cost.postLayer(outputs) + cost.stepOverhead();
    }

    /** Seconds of a draft, by its shape and with its swaps. */
    public double of(StepDraft draft) {
        double seconds = switch (draft.shape()) {
            case GPU_ONLY -> gpuOnly(draft.load(0));
            case OFFLOAD, SAME_LAYER -> sameLayer(draft.load(0));
            case PIPELINE -> pipeline(draft.load(0), draft.load(1));
            case ASYNC -> {
                int inFlight =
                        draft.state().inFlight().size() + draft.admissions().size();
                long tokens = draft.admittedTokens();
                for (Sequence sequence : draft.state().inFlight()) {
                    tokens += draft.state().context(sequence);
                }
                yield draft.isCohort()
                        ? cohort(draft.load(0), inFlight, tokens)
                        : async(draft.load(0), inFlight, tokens, inFlight == 0 ? 0 : draft.slots());
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
            tokens += draft.state().heldTokens(sequence);
        }
        for (Sequence sequence : draft.ins()) {
            tokens += draft.state().heldTokens(sequence);
        }
        return cost.transfer(tokens * kvBytesPerToken);
    }

    /** The load of a sub-batch without the tokens whose attention the CPU computes. */
    public static Load withoutCpuRows(StepDraft draft, int batch) {
        Load load = new Load(draft.state().kv().span());
        for (Row row : draft.rows(batch)) {
            if (row.site() != AttentionSite.CPU_FROM_HOST) {
                load.add(row, 1);
            }
        }
        return load;
    }
}
