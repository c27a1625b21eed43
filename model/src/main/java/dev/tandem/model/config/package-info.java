/**
 * Model configurations. Entry point: {@link dev.tandem.model.config.ModelConfig}.
 *
 * <p>Owned by: immutable. Next: {@code weights}.
 */
@NullMarked
package dev.tandem.model.config;

import org.jspecify.annotations.NullMarked;
