/**
 * Decides each step. Entry point: {@link dev.tandem.engine.schedule.Scheduler#plan}. No I/O and no clock: the same
 * classes serve the real engine, tests and simulation.
 *
 * <p>Owned by: engine thread. Next: {@code batch}.
 */
package dev.tandem.engine.schedule;
