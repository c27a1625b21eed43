/**
 * What a step can look like: {@link dev.tandem.engine.strategy.GpuOnly}, two sub-batches that take turns
 * ({@link dev.tandem.engine.strategy.Pipeline}) and {@link dev.tandem.engine.strategy.AsyncOverlap}, with the rules for
 * tiers and prompts that they share. A draft has no side effect; state advances when its step has completed. Owned by
 * the engine thread. Next: {@link dev.tandem.engine.strategy.paper}.
 */
package dev.tandem.engine.strategy;
