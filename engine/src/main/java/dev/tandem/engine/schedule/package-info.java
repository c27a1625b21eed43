/**
 * Planning of steps. Entry point: {@link dev.tandem.engine.schedule.Scheduler#plan}.
 *
 * <p>A policy reads {@link dev.tandem.engine.schedule.SchedulerState} and drafts steps;
 * {@link dev.tandem.engine.schedule.PlanCommitter} carries one draft out. There is no I/O and no clock: the same
 * classes serve the engine, tests and simulation.
 *
 * <p>Owned by: engine thread. Next: {@code strategy}.
 */
@NullMarked
package dev.tandem.engine.schedule;

import org.jspecify.annotations.NullMarked;
