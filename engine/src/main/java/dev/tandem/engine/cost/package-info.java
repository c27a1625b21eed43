/**
 * The time that the parts of a step take on this machine: a measured profile, corrected while serving by the times that
 * the executor measures. Next: {@link dev.tandem.engine.strategy}.
 */
@NullMarked
package dev.tandem.engine.cost;

import org.jspecify.annotations.NullMarked;
