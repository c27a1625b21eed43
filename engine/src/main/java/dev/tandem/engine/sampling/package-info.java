/**
 * From logits to a token. Entry point: {@link dev.tandem.engine.sampling.TokenSampler}, one per sequence, so that
 * neither the batch nor a recomputation changes what is drawn.
 *
 * <p>Owned by: the executor's thread while a step runs, else the engine thread. Next: {@code output}.
 */
@NullMarked
package dev.tandem.engine.sampling;

import org.jspecify.annotations.NullMarked;
