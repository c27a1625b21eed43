/**
 * Tensors in files: memory-mapped safetensors and GGUF, or seeded random ones. Entry point:
 * {@link dev.tandem.model.weights.Weights}.
 *
 * <p>Owned by: whoever closes the {@code Weights}; tensors are read-only. Next: module {@code cpu}.
 */
package dev.tandem.model.weights;
