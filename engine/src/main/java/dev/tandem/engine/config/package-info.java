/**
 * What is wrong with a configuration: {@link dev.tandem.engine.config.ConfigurationException}, thrown by every module
 * that reads options.
 *
 * <p>Owned by: nobody, immutable. Next: {@code loop}.
 */
package dev.tandem.engine.config;
