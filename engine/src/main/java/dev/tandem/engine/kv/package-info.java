/**
 * Which sequence holds which KV block, on which tier. Entry point: {@link dev.tandem.engine.kv.KvCache}. Only numbers
 * live here: the bytes belong to the executor.
 *
 * <p>Owned by: engine thread. Next: {@code schedule}.
 */
package dev.tandem.engine.kv;
