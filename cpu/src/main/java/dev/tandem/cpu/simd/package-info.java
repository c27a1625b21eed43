/**
 * Vector API kernels. Entry points: {@link dev.tandem.cpu.simd.PanelGemm} for GEMMs, {@link dev.tandem.cpu.simd.RowOps}
 * for the rest. Each has a scalar twin in {@code reference}.
 *
 * <p>Owned by: stateless. Next: {@code reference}.
 */
package dev.tandem.cpu.simd;
