/**
 * The engine thread, which owns all engine state: it drains commands, plans, executes, commits and emits. Entry points:
 * {@link dev.tandem.engine.loop.EngineLoop#step} to read, {@link dev.tandem.engine.loop.Engine} to use.
 *
 * <p>Owned by: engine thread; any thread may call {@link dev.tandem.engine.loop.Engine}. Next: {@code observe}.
 */
@NullMarked
package dev.tandem.engine.loop;

import org.jspecify.annotations.NullMarked;
