/**
 * What one step computes, as data: {@link dev.tandem.engine.batch.StepPlan} goes to the executor,
 * {@link dev.tandem.engine.batch.StepResult} comes back.
 *
 * <p>Owned by: nobody, all types are immutable. Next: {@code execute}.
 */
package dev.tandem.engine.batch;
