package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.AttentionSpan;
import dev.tandem.engine.step.AttentionSite;

/**
 * The work of a sub-batch, as the sizes that the cost model takes.
 *
 * <p>Owned by: engine thread.
 */
public final class Load {
    private final AttentionSpan span;
    private int rows;
    private int outputs;
    private long prefillPairs;
    private int gpuRows;
    private long gpuTokens;
    private int cpuRows;
    private long cpuTokens;
    private long prefillOffloadTokens;
    private double requests;

    /** The load of no row, for a model whose layers attend to all tokens. */
    public Load() {
        this(AttentionSpan.WHOLE);
    }

    /**
     * The load of no row.
     *
     * @param span how many tokens attention reads
     */
    public Load(AttentionSpan span) {
        this.span = span;
    }

    /**
     * Adds or removes a row.
     *
     * @param sign 1 to add, -1 to remove
     */
    public void add(StepDraft.Row row, int sign) {
        int count = row.rows();
        var sequence = row.sequence();
        rows += sign * count;
        boolean samples = row.start() + count == sequence.length();
        outputs += samples ? sign : 0;
        if (!row.decodes()) {
            prefillPairs += sign * span.pairs(row.start(), count);
            requests += sign * (double) count / sequence.length();
        } else {
            requests += sign;
            switch (row.site()) {
                case GPU_FROM_GPU, GPU_FROM_HOST -> {
                    gpuRows += sign;
                    gpuTokens += (long) sign * span.tokens(sequence.length());
                }
                case CPU_FROM_HOST -> {
                    cpuRows += sign;
                    cpuTokens += (long) sign * span.tokens(sequence.length());
                }
                case GPU_PREFILL_OFFLOAD ->
                    throw new IllegalArgumentException("a decode of " + sequence + " was to be offloaded as a prefill");
            }
        }
        if (row.site() == AttentionSite.GPU_PREFILL_OFFLOAD) {
            prefillOffloadTokens += sign * (row.start() + (long) count);
        }
    }

    /** Tokens of the GEMMs. */
    public int rows() {
        return rows;
    }

    /** Tokens whose logits are computed. */
    public int outputs() {
        return outputs;
    }

    /** Pairs of a prefill token and a token that it attends to. */
    public long prefillPairs() {
        return prefillPairs;
    }

    /** Decodes whose attention the GPU computes. */
    public int gpuRows() {
        return gpuRows;
    }

    /** Tokens that {@link #gpuRows} attend to. */
    public long gpuTokens() {
        return gpuTokens;
    }

    /** Decodes whose attention the CPU computes. */
    public int cpuRows() {
        return cpuRows;
    }

    /** Tokens that {@link #cpuRows} attend to. */
    public long cpuTokens() {
        return cpuTokens;
    }

    /** Tokens of prompts that are offloaded to the host layer by layer, those of earlier chunks included. */
    public long prefillOffloadTokens() {
        return prefillOffloadTokens;
    }

    /** x of NEO §3.2: a decode counts 1, a prefill chunk its fraction of the prompt. */
    public double requests() {
        return requests;
    }
}
