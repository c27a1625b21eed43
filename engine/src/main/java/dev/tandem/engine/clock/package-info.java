/**
 * Time as a parameter: nothing in the engine asks the system for it. Entry point:
 * {@link dev.tandem.engine.clock.Clock}.
 *
 * <p>Owned by: any thread; {@link dev.tandem.engine.clock.VirtualClock} by the thread that advances it. Next:
 * {@code request}.
 */
@NullMarked
package dev.tandem.engine.clock;

import org.jspecify.annotations.NullMarked;
