/**
 * Which strategy makes the next step: {@link dev.tandem.engine.strategy.select.Strategy} names them,
 * {@link dev.tandem.engine.strategy.select.StrategySelector} measures gpu-only and the strategies that offload, and
 * lets the better run. Owned by the engine thread. Next: {@link dev.tandem.engine.step}.
 */
package dev.tandem.engine.strategy.select;
