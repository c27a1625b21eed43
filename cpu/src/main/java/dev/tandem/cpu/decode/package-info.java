/**
 * Decode attention over host KV: the block format and the implementations. Entry point:
 * {@link dev.tandem.cpu.decode.PagedDecodeAttention}.
 *
 * <p>Owned by: the worker threads, one task at a time. Next: {@code topology}.
 */
@NullMarked
package dev.tandem.cpu.decode;

import org.jspecify.annotations.NullMarked;
