/**
 * GGUF v3 files: metadata, vocabulary and tensors in one file. Entry point: {@link dev.tandem.model.gguf.GgufFile}.
 *
 * <p>Owned by: the code that closes the file. Next: {@code weights}.
 */
@NullMarked
package dev.tandem.model.gguf;

import org.jspecify.annotations.NullMarked;
