/**
 * The one thread that owns all engine state: drain, plan, execute, commit, emit. Entry points:
 * {@link dev.tandem.engine.loop.EngineLoop#step} to read, {@link dev.tandem.engine.loop.Engine} to use.
 *
 * <p>Owned by: engine thread; {@link dev.tandem.engine.loop.Engine} may be called from any. Next: {@code observe}.
 */
package dev.tandem.engine.loop;
