/**
 * Errors of configuration: {@link dev.tandem.engine.config.ConfigurationException}, which every module that reads
 * options throws.
 *
 * <p>Owned by: any thread, immutable. Next: {@code loop}.
 */
@NullMarked
package dev.tandem.engine.config;

import org.jspecify.annotations.NullMarked;
