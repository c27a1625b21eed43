/**
 * Tensors in files: memory-mapped safetensors and GGUF, or seeded random ones. Entry point:
 * {@link dev.tandem.model.weights.Weights}.
 *
 * <p>Owned by: whoever closes the {@code Weights}; tensors are read-only. Next: module {@code cpu}.
 */
@NullMarked
package dev.tandem.model.weights;

import org.jspecify.annotations.NullMarked;
