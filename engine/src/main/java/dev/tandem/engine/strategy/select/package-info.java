/**
 * The choice of the strategy for the next step. {@link dev.tandem.engine.strategy.select.Strategy} names the
 * strategies. {@link dev.tandem.engine.strategy.select.StrategySelector} measures gpu-only and the strategies that
 * offload, and runs the better one. Owned by the engine thread. Next: {@link dev.tandem.engine.step}.
 */
@NullMarked
package dev.tandem.engine.strategy.select;

import org.jspecify.annotations.NullMarked;
