package dev.tandem.engine.observe;

import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.step.SubBatch;
import java.util.HashSet;
import java.util.Set;

/**
 * One step in numbers.
 *
 * @param step number of the step
 * @param tokens what it computed
 * @param swaps sequences whose KV it moved between the tiers
 * @param startedNanos when planning began, by the engine's clock
 * @param planNanos time that planning took
 * @param executeNanos from the submit, or from the result before if that came later, to the result
 * @param sampling when it sampled
 * @param times where the time of the step went, as far as the executor measures it
 */
public record StepRecord(
        long step,
        Tokens tokens,
        int swaps,
        long startedNanos,
        long planNanos,
        long executeNanos,
        Sampling sampling,
        StepTimes times) {
    /**
     * When a step sampled its rows.
     *
     * @param later whether it sampled once the result of the step before was applied
     * @param leftOut rows that it did not sample because their bitmask was late
     * @param waitNanos time that it waited for bitmasks
     */
    public record Sampling(boolean later, int leftOut, long waitNanos) {
        /** A step without grammars, whose draws depend on no result. */
        public static final Sampling AT_ONCE = new Sampling(false, 0, 0);
    }

    /**
     * Tokens that a step computed.
     *
     * @param prefill tokens of chunks that do not decode
     * @param decode decoded tokens, in-flight tokens that were sampled included
     * @param host decoded tokens whose attention the CPU computed from host KV
     */
    public record Tokens(int prefill, int decode, int host) {
        private static Tokens of(StepPlan plan, StepResult result) {
            int prefill = 0;
            int decode = 0;
            int host = 0;
            Set<Long> fromHost = new HashSet<>(); // of chunks
            for (SubBatch batch : plan.subBatches()) {
                for (Chunk chunk : batch.chunks()) {
                    if (chunk.decodes()) {
                        decode++;
                    } else {
                        prefill += chunk.rows();
                    }
                    if (chunk.site() == AttentionSite.CPU_FROM_HOST) {
                        host += chunk.decodes() ? 1 : 0;
                        fromHost.add(chunk.sequence());
                    }
                }
            }
            int returned = 0; // in-flight tokens; a chunk may have no result
            for (StepResult.Sampled sampled : result.sampled()) {
                returned += sampled.fromHost() && !fromHost.contains(sampled.sequence()) ? 1 : 0;
            }
            return new Tokens(prefill, decode + returned, host + returned);
        }
    }

    /** The record of a step with its result. */
    public static StepRecord of(
            StepPlan plan, StepResult result, long startedNanos, long planNanos, long executeNanos, Sampling sampling) {
        return new StepRecord(
                plan.step(),
                Tokens.of(plan, result),
                plan.swaps().size(),
                startedNanos,
                planNanos,
                executeNanos,
                sampling,
                result.times());
    }
}
