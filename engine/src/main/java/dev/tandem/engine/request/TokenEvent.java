package dev.tandem.engine.request;

import java.util.Optional;

/** What a client learns of its request, in order: tokens, then exactly one of {@link Finished} and {@link Failed}. */
public sealed interface TokenEvent {
    /**
     * @param text text released by this token; empty while a stop string or a character is incomplete
     * @param logprobs present when asked for
     * @param fromHost whether the attention that led to it was computed from host KV
     */
    record Token(int id, String text, Optional<TokenLogprobs> logprobs, boolean fromHost) implements TokenEvent {}

    /**
     * @param text text that had been held back
     * @param stopReason the stop string or stop token that ended it; empty for end-of-sequence and other reasons
     */
    record Finished(FinishReason reason, String text, String stopReason, Usage usage) implements TokenEvent {}

    /** The engine could not go on with it; the message is fit for the client. */
    record Failed(String message) implements TokenEvent {}
}
