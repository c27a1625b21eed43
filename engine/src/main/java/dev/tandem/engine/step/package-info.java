/**
 * What one step computes, as data: {@link dev.tandem.engine.step.StepPlan} goes to the executor,
 * {@link dev.tandem.engine.step.StepResult} comes back.
 *
 * <p>Owned by: any thread, all types are immutable. Next: {@code executor}.
 */
@NullMarked
package dev.tandem.engine.step;

import org.jspecify.annotations.NullMarked;
