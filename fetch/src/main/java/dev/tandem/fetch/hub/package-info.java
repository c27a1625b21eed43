/**
 * Downloads models from a model hub into the hub's own cache, which the hub's Python client shares. Entry point:
 * {@link dev.tandem.fetch.hub.Hub}.
 *
 * <p>Owned by: a hub is used by one thread, which starts threads for files and ranges and waits for them. The cache is
 * shared by processes under one lock per file.
 */
@NullMarked
package dev.tandem.fetch.hub;

import org.jspecify.annotations.NullMarked;
