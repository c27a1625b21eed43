/**
 * The line between deciding and doing: {@link dev.tandem.engine.executor.Executor} runs step plans. The CPU, CUDA and
 * simulated executors implement it in modules of their own.
 *
 * <p>Owned by: engine thread. Next: module {@code cpu}, then {@code sample}.
 */
package dev.tandem.engine.executor;
