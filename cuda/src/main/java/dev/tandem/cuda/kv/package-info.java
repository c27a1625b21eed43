/**
 * KV blocks on the GPU and in pinned host memory, and the copies between them. Entry point:
 * {@link dev.tandem.cuda.kv.KvPools}.
 *
 * <p>Owned by: engine thread. Next: {@code hostattention}.
 */
@NullMarked
package dev.tandem.cuda.kv;

import org.jspecify.annotations.NullMarked;
