package dev.tandem.model.config;

/** The function of the gate in an MLP; its value is multiplied by up. */
public enum Activation {
    /** {@code x · sigmoid(x)}: SwiGLU. */
    SILU,
    /** {@code x · (1 + tanh(sqrt(2 / pi) · (x + 0.044715 x³))) / 2}: GeGLU, as Gemma has it. */
    GELU_TANH
}
