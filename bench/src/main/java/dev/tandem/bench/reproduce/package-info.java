/**
 * The figures of the NEO and APEX papers: what each shows, its cells on the simulator, and a verdict on each claim.
 * Entry points: {@link dev.tandem.bench.reproduce.Figure}, {@link dev.tandem.bench.reproduce.Reproduction}.
 *
 * <p>Owned by: figures and verdicts are immutable; each cell is simulated by one thread.
 */
@NullMarked
package dev.tandem.bench.reproduce;

import org.jspecify.annotations.NullMarked;
