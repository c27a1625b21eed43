/**
 * GEMMs: which kernel computes how many rows, and the launches. Entry points: {@link dev.tandem.cuda.gemm.GemmPlan},
 * {@link dev.tandem.cuda.gemm.LayerGemms}.
 *
 * <p>Owned by: engine thread. Next: {@code weights}.
 */
@NullMarked
package dev.tandem.cuda.gemm;

import org.jspecify.annotations.NullMarked;
