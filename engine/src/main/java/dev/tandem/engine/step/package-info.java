/**
 * What one step computes, as data: {@link dev.tandem.engine.step.StepPlan} goes to the executor,
 * {@link dev.tandem.engine.step.StepResult} comes back.
 *
 * <p>Owned by: nobody, all types are immutable. Next: {@code execute}.
 */
package dev.tandem.engine.step;
