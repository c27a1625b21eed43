package dev.tandem.engine.request;

/**
 * Natural-log probabilities at one position, of the model's own distribution: before temperature and penalties.
 *
 * @param logprob of the chosen token
 * @param topTokens the most probable tokens, best first
 * @param topLogprobs their log-probabilities, aligned with {@code topTokens}
 */
public record TokenLogprobs(float logprob, int[] topTokens, float[] topLogprobs) {}
