/**
 * The KV cache's bytes and attention over them. Entry points: {@link dev.tandem.cpu.attention.KvStore},
 * {@link dev.tandem.cpu.attention.PagedAttention}.
 *
 * <p>Owned by: the executor. Next: {@code topology}.
 */
package dev.tandem.cpu.attention;
