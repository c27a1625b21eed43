/**
 * Scalar twins of every kernel, written to be obviously right: the truth all tests compare with. Entry point:
 * {@link dev.tandem.cpu.reference.ReferenceOps}.
 *
 * <p>Owned by: stateless.
 */
package dev.tandem.cpu.reference;
