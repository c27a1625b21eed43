/**
 * Decode attention over host KV: the block format, its implementations
 * ({@link dev.tandem.cpu.decode.PagedDecodeAttention}), and the workers that run it. Owned by: the workers' threads,
 * task by task. Next: {@code cpu.topology}.
 */
package dev.tandem.cpu.decode;
