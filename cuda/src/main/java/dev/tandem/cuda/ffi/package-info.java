/**
 * NVIDIA's libraries under their C names, nothing else: one class per library, one field per function.
 *
 * <p>Owned by: no thread; immutable. Next: {@code device}, which gives them types.
 */
@NullMarked
package dev.tandem.cuda.ffi;

import org.jspecify.annotations.NullMarked;
