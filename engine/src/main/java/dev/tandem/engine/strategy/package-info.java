/**
 * The kinds of steps that policies can draft: {@link dev.tandem.engine.strategy.GpuOnly}, two sub-batches that take
 * turns ({@link dev.tandem.engine.strategy.Pipeline}) and {@link dev.tandem.engine.strategy.AsyncOverlap}, with the
 * rules for KV tiers and prompts that they share. A draft has no side effect; state advances when the step of a draft
 * has completed. Owned by the engine thread. Next: {@link dev.tandem.engine.strategy.paper}.
 */
@NullMarked
package dev.tandem.engine.strategy;

import org.jspecify.annotations.NullMarked;
