/**
 * Vector API kernels. Entry points: {@link dev.tandem.cpu.simd.PanelGemm} for GEMMs, {@link dev.tandem.cpu.simd.RowOps}
 * for row-wise operations. Each has a scalar version in {@code reference}.
 *
 * <p>Owned by: nothing; kernels are stateless. Next: {@code reference}.
 */
@NullMarked
package dev.tandem.cpu.simd;

import org.jspecify.annotations.NullMarked;
