/**
 * Tensors: memory-mapped from safetensors or GGUF files, or seeded random ones. Entry point:
 * {@link dev.tandem.model.weights.Weights}.
 *
 * <p>Owned by: the code that closes the {@code Weights}; tensors are read-only. Next: module {@code cpu}.
 */
@NullMarked
package dev.tandem.model.weights;

import org.jspecify.annotations.NullMarked;
