package dev.tandem.engine.request;

/** Why a generation ended; {@link #wire} is OpenAI's word for it. */
public enum FinishReason {
    STOP("stop"),
    LENGTH("length"),
    ABORT("abort");

    private final String wire;

    FinishReason(String wire) {
        this.wire = wire;
    }

    public String wire() {
        return wire;
    }
}
