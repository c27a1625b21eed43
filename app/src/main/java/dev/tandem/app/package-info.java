/**
 * The command line: {@code serve}, {@code generate}, {@code bench}, {@code doctor}. Entry point:
 * {@link dev.tandem.app.Main}; {@link dev.tandem.app.EngineAssembly} puts the parts together.
 *
 * <p>Owned by: the main thread.
 */
package dev.tandem.app;
