/**
 * NVIDIA's libraries under their C names, nothing else: one class a library, one field a function.
 *
 * <p>Owned by: nobody, immutable. Next: {@code device}, which gives them types.
 */
package dev.tandem.cuda.ffi;
