/**
 * What models compute, and their sizes. Entry point: {@link dev.tandem.model.config.ModelSpec}.
 *
 * <p>Owned by: immutable. Next: {@code weights}.
 */
@NullMarked
package dev.tandem.model.config;

import org.jspecify.annotations.NullMarked;
