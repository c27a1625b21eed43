package dev.tandem.model.config;

/** Where a layer has the RMS norms of its attention and of its MLP. */
public enum NormPlacement {
    /** On the inputs: {@code x + f(norm(x))} (Llama). */
    BEFORE,
    /** On the outputs: {@code x + norm(f(x))} (OLMo 2). */
    AFTER,
    /** On both: {@code x + norm(f(norm(x)))} (Gemma 3). */
    BOTH;

    /** Whether attention and MLP read a normalised residual stream. */
    public boolean onInputs() {
        return this != AFTER;
    }

    /** Whether the outputs of attention and MLP are normalised before they are added. */
    public boolean onOutputs() {
        return this != BEFORE;
    }
}
