/**
 * The interface between scheduling and computing: {@link dev.tandem.engine.executor.Executor} runs step plans. The CPU,
 * CUDA and simulated executors implement it in modules of their own.
 *
 * <p>Owned by: engine thread. Next: module {@code cpu}, then {@code sampling}.
 */
@NullMarked
package dev.tandem.engine.executor;

import org.jspecify.annotations.NullMarked;
