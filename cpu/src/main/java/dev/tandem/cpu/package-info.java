/**
 * The executor that runs a whole model on host cores, for tests, laptops and CI, and as the reference for the GPU.
 * Entry point: {@link dev.tandem.cpu.CpuExecutor}; the layers are in {@link dev.tandem.cpu.DecoderForward}.
 *
 * <p>Owned by: engine thread; workers run only inside a step. Next: {@code attention}, {@code simd}, then package
 * {@code dev.tandem.engine.sampling}.
 */
@NullMarked
package dev.tandem.cpu;

import org.jspecify.annotations.NullMarked;
