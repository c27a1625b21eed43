/**
 * The whole model on the host: tests, laptops, CI, and the reference for every GPU kernel. Entry point:
 * {@link dev.tandem.cpu.CpuExecutor}; the layers are in {@link dev.tandem.cpu.LlamaForward}.
 *
 * <p>Owned by: engine thread; workers run only inside a step. Next: {@code attention}, {@code simd}, then package
 * {@code dev.tandem.engine.sampling}.
 */
package dev.tandem.cpu;
