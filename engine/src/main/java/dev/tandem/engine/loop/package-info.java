/**
 * The engine thread, which owns all engine state: it drains commands, plans, executes, commits and emits. Entry points:
 * {@link dev.tandem.engine.loop.EngineLoop#step} to read, {@link dev.tandem.engine.loop.Engine} to use.
 *
 * <p>Owned by: engine thread; any thread may call {@link dev.tandem.engine.loop.Engine}. Next: {@code observe}.
 */
package dev.tandem.engine.loop;
