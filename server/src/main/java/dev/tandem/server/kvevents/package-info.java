/**
 * Publishes the changes of the prefix cache over ZeroMQ in vLLM's format, for routers that send a request to where its
 * prefix is. Entry point: {@link dev.tandem.server.kvevents.KvEventPublisher}.
 *
 * <p>Owned by: the publisher's thread. Next: {@code http}.
 */
@NullMarked
package dev.tandem.server.kvevents;

import org.jspecify.annotations.NullMarked;
