/**
 * Which sequences hold which KV block, in which tier, and which blocks hold which prefix. Entry point:
 * {@link dev.tandem.engine.kv.KvCache}. Blocks are numbers here; the executor holds their bytes.
 *
 * <p>Owned by: engine thread. Next: {@code schedule}.
 */
@NullMarked
package dev.tandem.engine.kv;

import org.jspecify.annotations.NullMarked;
