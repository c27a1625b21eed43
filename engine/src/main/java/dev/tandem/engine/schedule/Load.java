package dev.tandem.engine.schedule;

import dev.tandem.engine.step.AttentionSite;

/**
 * What a sub-batch asks of the machine: the sizes that the cost model takes.
 *
 * <p>Owned by: engine thread.
 */
public final class Load {
    private int rows;
    private int outputs;
    private long prefillPairs;
    private int gpuRows;
    private long gpuTokens;
    private int cpuRows;
    private long cpuTokens;
    private long prefillOffloadTokens;
    private double requests;

    /** @param sign 1 adds the row, -1 takes it away */
    public void add(StepDraft.Row row, int sign) {
        int count = row.rows();
        var sequence = row.sequence();
        rows += sign * count;
        boolean samples = count == sequence.remaining();
        outputs += samples ? sign : 0;
        if (!row.decodes()) {
            long context = sequence.computed();
            prefillPairs += sign * (count * context + (long) count * (count + 1) / 2);
            requests += sign * (double) count / sequence.length();
        } else {
            requests += sign;
            switch (row.site()) {
                case GPU_FROM_GPU, GPU_FROM_HOST -> {
                    gpuRows += sign;
                    gpuTokens += (long) sign * sequence.length();
                }
                case CPU_FROM_HOST -> {
                    cpuRows += sign;
                    cpuTokens += (long) sign * sequence.length();
                }
                case GPU_PREFILL_OFFLOAD -> throw new IllegalArgumentException("a decode row does not land");
            }
        }
        if (row.site() == AttentionSite.GPU_PREFILL_OFFLOAD) {
            prefillOffloadTokens += sign * (sequence.computed() + (long) count);
        }
    }

    /** Rows of the linear stages. */
    public int rows() {
        return rows;
    }

    /** Rows whose logits are wanted. */
    public int outputs() {
        return outputs;
    }

    /** Pairs of a prefill row and a token that it attends to. */
    public long prefillPairs() {
        return prefillPairs;
    }

    /** Decode rows whose KV the GPU reads. */
    public int gpuRows() {
        return gpuRows;
    }

    /** Their tokens of context. */
    public long gpuTokens() {
        return gpuTokens;
    }

    /** Decode rows whose KV the CPU reads. */
    public int cpuRows() {
        return cpuRows;
    }

    /** Their tokens of context. */
    public long cpuTokens() {
        return cpuTokens;
    }

    /** Tokens of prompts whose KV leaves for the host layer by layer, those of earlier chunks included. */
    public long prefillOffloadTokens() {
        return prefillOffloadTokens;
    }

    /** x of NEO §3.2: a decode counts one, a prefill chunk its share of the prompt. */
    public double requests() {
        return requests;
    }
}
