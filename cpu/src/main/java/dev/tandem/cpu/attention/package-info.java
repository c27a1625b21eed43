/**
 * The CPU executor's KV blocks and the attention over them. Entry points: {@link dev.tandem.cpu.attention.KvStore},
 * {@link dev.tandem.cpu.attention.PagedAttention}.
 *
 * <p>Owned by: the executor. Next: {@code topology}.
 */
@NullMarked
package dev.tandem.cpu.attention;

import org.jspecify.annotations.NullMarked;
