/**
 * Matrix products: which kernel for how many rows, and their launches. Entry points:
 * {@link dev.tandem.cuda.gemm.GemmPlan}, {@link dev.tandem.cuda.gemm.LayerGemms}.
 *
 * <p>Owned by: engine thread. Next: {@code weights}.
 */
package dev.tandem.cuda.gemm;
