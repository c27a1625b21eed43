/**
 * Decode attention of host tokens on the CPU: the memory and queues shared with the GPU, and the workers. Entry points:
 * {@link dev.tandem.cuda.hostattention.HostLinkMemory}, {@link dev.tandem.cuda.hostattention.HostAttentionWorkers}.
 *
 * <p>Owned by: engine thread, except what the workers call. Next: {@code kernels}, host_transfer.cu.
 */
@NullMarked
package dev.tandem.cuda.hostattention;

import org.jspecify.annotations.NullMarked;
