package dev.tandem.model.config;

/** Where a layer has the RMS norms of its attention and of its MLP. */
public enum NormPlacement {
    /** On the inputs: {@code x + f(norm(x))} (Llama). */
    BEFORE,
    /** On the outputs: {@code x + norm(f(x))} (OLMo 2). */
    AFTER
}
