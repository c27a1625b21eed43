/**
 * Logits to token. Entry point: {@link dev.tandem.engine.sampling.TokenSampler}, one a sequence, so that neither the
 * batch nor a recomputation changes what is drawn.
 *
 * <p>Owned by: the executor's thread while a step runs, else the engine thread. Next: {@code loop}.
 */
package dev.tandem.engine.sampling;
