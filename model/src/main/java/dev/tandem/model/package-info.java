/**
 * Models on disk, independent of the executor: configurations, weights and checkpoints. Entry point:
 * {@link dev.tandem.model.Checkpoint}.
 *
 * <p>Owned by: immutable after loading. Next: {@code config}, {@code weights}, then module {@code cpu}.
 */
@NullMarked
package dev.tandem.model;

import org.jspecify.annotations.NullMarked;
