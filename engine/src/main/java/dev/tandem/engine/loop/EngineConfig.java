package dev.tandem.engine.loop;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.schedule.Budget;
import java.util.Set;

/**
 * @param endTokens the model's end-of-sequence tokens
 * @param contextTokens the most tokens prompt and output may have together
 * @param maxQueuedRequests requests that may wait before new ones are refused
 * @param seed of the sampling of requests that bring none
 * @param shadowVerificationRate share of requests of which a token that was decoded from host KV is computed again by
 *     the GPU
 */
public record EngineConfig(
        Budget budget,
        Set<Integer> endTokens,
        int contextTokens,
        int maxQueuedRequests,
        long seed,
        double shadowVerificationRate,
        SchedulingPolicy schedulingPolicy) {
    /** In order of arrival. */
    public EngineConfig(
            Budget budget,
            Set<Integer> endTokens,
            int contextTokens,
            int maxQueuedRequests,
            long seed,
            double shadowVerificationRate) {
        this(budget, endTokens, contextTokens, maxQueuedRequests, seed, shadowVerificationRate, SchedulingPolicy.FCFS);
    }

    /** In order of arrival, without shadow verifications. */
    public EngineConfig(Budget budget, Set<Integer> endTokens, int contextTokens, int maxQueuedRequests, long seed) {
        this(budget, endTokens, contextTokens, maxQueuedRequests, seed, 0);
    }

    public EngineConfig {
        if (!(shadowVerificationRate >= 0 && shadowVerificationRate <= 1)) {
            throw new ConfigurationException("--shadow-verification-rate is " + shadowVerificationRate
                    + "; it is a share of requests and lies in [0, 1]");
        }
    }
}
