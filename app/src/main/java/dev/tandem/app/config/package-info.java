/**
 * Where the values of options come from: the command line, the environment, a configuration file, or the default.
 *
 * <p>Entry point: {@link dev.tandem.app.config.OptionValues}, which picocli asks for what the command line leaves open.
 * {@link dev.tandem.app.config.Configuration} is the result. Owned by: the thread of the command.
 */
@NullMarked
package dev.tandem.app.config;

import org.jspecify.annotations.NullMarked;
