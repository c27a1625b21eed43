package dev.tandem.engine.step;

import dev.tandem.engine.sampling.TokenSampler;

/**
 * A host token that enters layer 0 and then advances through the layers as its attention results come back, possibly
 * over several steps (async overlap, APEX §3.3; ready slots). Its block is granted before it enters.
 *
 * @param position of the token, whose KV is appended at every layer
 * @param token its id, or {@link Chunk#PLACEHOLDER}
 * @param blocks host blocks covering {@code [0, position]}
 */
public record Admission(long sequence, int position, int token, int[] blocks, TokenSampler sampler) {}
