package dev.tandem.engine.loop;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.schedule.Budget;
import java.util.Set;

/**
 * What the engine is configured with, apart from its executor and scheduler.
 *
 * @param budget max size of a step
 * @param endTokens the model's end-of-sequence tokens
 * @param contextTokens max tokens of prompt and output together
 * @param maxQueuedRequests requests that may wait; further ones are refused
 * @param seed of the sampling of requests that have none
 * @param shadowVerificationRate fraction of requests of which the GPU recomputes one token that was decoded from host
 *     KV
 * @param schedulingPolicy in which order requests run
 * @param prefixCache whether requests with equal prefixes share KV
 */
public record EngineConfig(
        Budget budget,
        Set<Integer> endTokens,
        int contextTokens,
        int maxQueuedRequests,
        long seed,
        double shadowVerificationRate,
        SchedulingPolicy schedulingPolicy,
        PrefixCacheOptions prefixCache) {
    /** Creates a configuration without a prefix cache. */
    public EngineConfig(
            Budget budget,
            Set<Integer> endTokens,
            int contextTokens,
            int maxQueuedRequests,
            long seed,
            double shadowVerificationRate,
            SchedulingPolicy schedulingPolicy) {
        this(
                budget,
                endTokens,
                contextTokens,
                maxQueuedRequests,
                seed,
                shadowVerificationRate,
                schedulingPolicy,
                PrefixCacheOptions.OFF);
    }

    /** Creates a configuration whose requests run in order of arrival. */
    public EngineConfig(
            Budget budget,
            Set<Integer> endTokens,
            int contextTokens,
            int maxQueuedRequests,
            long seed,
            double shadowVerificationRate) {
        this(budget, endTokens, contextTokens, maxQueuedRequests, seed, shadowVerificationRate, SchedulingPolicy.FCFS);
    }

    /** Creates a configuration whose requests run in order of arrival, without shadow verification. */
    public EngineConfig(Budget budget, Set<Integer> endTokens, int contextTokens, int maxQueuedRequests, long seed) {
        this(budget, endTokens, contextTokens, maxQueuedRequests, seed, 0);
    }

    /** Checks the rate of shadow verification. */
    public EngineConfig {
        if (!(shadowVerificationRate >= 0 && shadowVerificationRate <= 1)) {
            throw new ConfigurationException("--shadow-verification-rate is " + shadowVerificationRate
                    + "; it is a fraction of requests and lies in [0, 1]");
        }
    }

    /** The same configuration with another prefix cache. */
    public EngineConfig withPrefixCache(PrefixCacheOptions next) {
        return new EngineConfig(
                budget,
                endTokens,
                contextTokens,
                maxQueuedRequests,
                seed,
                shadowVerificationRate,
                schedulingPolicy,
                next);
    }
}
