/**
 * Machines described by data sheets, and the times that follow from them for a model. Entry points:
 * {@link dev.tandem.bench.hardware.Hardware}, {@link dev.tandem.bench.hardware.Roofline}.
 *
 * <p>All classes are immutable.
 */
@NullMarked
package dev.tandem.bench.hardware;

import org.jspecify.annotations.NullMarked;
