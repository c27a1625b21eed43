package dev.tandem.model.config;

/** The RMS norm that queries and keys pass before their rotation. */
public enum QkNorm {
    NONE,
    /** Each head by itself, with one weight vector for all heads (Qwen3). */
    PER_HEAD,
    /** All heads of a token together (OLMo 2). */
    WHOLE_ROW
}
