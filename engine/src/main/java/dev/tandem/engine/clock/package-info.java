/**
 * Time as a parameter: nothing in the engine asks the system for it. Entry point:
 * {@link dev.tandem.engine.clock.Clock}.
 *
 * <p>Owned by: nobody, all types are immutable or single-threaded by contract. Next: {@code request}.
 */
package dev.tandem.engine.clock;
