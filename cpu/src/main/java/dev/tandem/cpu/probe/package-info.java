/**
 * Measurements of this machine's peak bandwidth and arithmetic rate, which results are compared with. Entry point:
 * {@link dev.tandem.cpu.probe.MachineProbe}.
 *
 * <p>Owned by: the thread that measures.
 */
@NullMarked
package dev.tandem.cpu.probe;

import org.jspecify.annotations.NullMarked;
