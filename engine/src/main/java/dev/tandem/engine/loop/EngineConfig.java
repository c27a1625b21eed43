package dev.tandem.engine.loop;

import dev.tandem.engine.schedule.Budget;
import java.util.Set;

/**
 * @param endTokens the model's end-of-sequence tokens
 * @param contextTokens the most tokens prompt and output may have together
 * @param maxQueuedRequests requests that may wait before new ones are refused
 * @param seed of the sampling of requests that bring none
 */
public record EngineConfig(Budget budget, Set<Integer> endTokens, int contextTokens, int maxQueuedRequests, long seed) {}
