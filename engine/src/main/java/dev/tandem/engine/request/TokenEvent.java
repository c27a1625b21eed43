package dev.tandem.engine.request;

import java.util.Optional;

/** An event of a request, for its client: first tokens, then exactly one {@link Finished} or {@link Failed}. */
public sealed interface TokenEvent {
    /**
     * The next output token.
     *
     * @param id token id
     * @param text text that this token releases; empty while a stop string or a character is incomplete
     * @param logprobs present when asked for
     * @param fromHost whether the CPU computed the attention that led to it, from host KV
     */
    record Token(int id, String text, Optional<TokenLogprobs> logprobs, boolean fromHost) implements TokenEvent {}

    /**
     * The end of a request that was served.
     *
     * @param reason why it ended
     * @param text text that was held back until now
     * @param stopReason the stop string or stop token that ended it; empty for end-of-sequence and other reasons
     * @param usage what the request cost
     */
    record Finished(FinishReason reason, String text, String stopReason, Usage usage) implements TokenEvent {}

    /** The end of a request that failed; the message is for the client. */
    record Failed(String message) implements TokenEvent {}
}
