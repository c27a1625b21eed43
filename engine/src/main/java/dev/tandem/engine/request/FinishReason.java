package dev.tandem.engine.request;

/** Why a generation ended. */
public enum FinishReason {
    /** An end-of-sequence token, a stop token or a stop string. */
    STOP("stop"),
    /** Max output tokens, or the end of the context. */
    LENGTH("length"),
    /** The request was cancelled. */
    ABORT("abort");

    private final String wire;

    FinishReason(String wire) {
        this.wire = wire;
    }

    /** The reason as OpenAI's and vLLM's APIs spell it. */
    public String wire() {
        return wire;
    }
}
