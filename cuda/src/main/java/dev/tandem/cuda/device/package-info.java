/**
 * Typed resources of a GPU: device, streams, events, memory, modules and graphs, each closed once by its owner. Entry
 * point: {@link dev.tandem.cuda.device.Device}.
 *
 * <p>Owned by: the thread that uses them. Next: {@code kernels}.
 */
@NullMarked
package dev.tandem.cuda.device;

import org.jspecify.annotations.NullMarked;
