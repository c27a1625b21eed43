/**
 * The command line: {@code serve}, {@code generate}, {@code bench}, {@code doctor}. Entry point:
 * {@link dev.tandem.app.Main}; {@link dev.tandem.app.EngineAssembly} assembles the engine.
 *
 * <p>Owned by: the main thread.
 */
@NullMarked
package dev.tandem.app;

import org.jspecify.annotations.NullMarked;
