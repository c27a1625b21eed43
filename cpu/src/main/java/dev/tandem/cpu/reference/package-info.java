/**
 * A scalar version of every kernel, written for clarity: all kernel tests compare with it. Entry point:
 * {@link dev.tandem.cpu.reference.ReferenceOps}.
 *
 * <p>Owned by: nothing; all methods are stateless.
 */
@NullMarked
package dev.tandem.cpu.reference;

import org.jspecify.annotations.NullMarked;
