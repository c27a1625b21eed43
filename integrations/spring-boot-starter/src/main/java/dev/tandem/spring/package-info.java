/**
 * A chat model of Spring AI that runs in the application's own process, and its auto-configuration. Entry points:
 * {@link dev.tandem.spring.TandemAutoConfiguration} and {@link dev.tandem.spring.TandemChatModel}.
 *
 * <p>Owned by: the application's threads; each streamed answer is read by a virtual thread.
 */
@NullMarked
package dev.tandem.spring;

import org.jspecify.annotations.NullMarked;
