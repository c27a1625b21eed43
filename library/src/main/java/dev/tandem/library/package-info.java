/**
 * Tandem inside a Java program: a model, its requests and its answers. Entry point: {@link dev.tandem.library.Tandem}.
 *
 * <p>Owned by: the program's threads; the engine has its own.
 */
@NullMarked
package dev.tandem.library;

import org.jspecify.annotations.NullMarked;
