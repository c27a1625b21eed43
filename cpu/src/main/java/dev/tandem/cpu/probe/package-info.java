/**
 * What this machine can do at most: the limits that results are compared with. Entry point:
 * {@link dev.tandem.cpu.probe.MachineProbe}.
 *
 * <p>Owned by: the thread that measures.
 */
package dev.tandem.cpu.probe;
