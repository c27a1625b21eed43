package dev.tandem.engine.sampling;

import dev.tandem.engine.request.TokenLogprobs;
import java.util.Optional;

/** A sampled token, with log-probabilities if the request asked for them. */
public record Choice(int token, Optional<TokenLogprobs> logprobs) {}
