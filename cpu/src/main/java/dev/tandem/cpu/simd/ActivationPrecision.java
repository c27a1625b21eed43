package dev.tandem.cpu.simd;

/** How activations enter GEMMs with quantised matrices. */
public enum ActivationPrecision {
    /** As fp32. */
    EXACT,
    /** Rounded to int8, with a scale per row and group of inputs; {@link Int8Kernel} multiplies them. */
    INT8;

    /** The value of {@code --cpu-activations}. */
    public String flag() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }
}
