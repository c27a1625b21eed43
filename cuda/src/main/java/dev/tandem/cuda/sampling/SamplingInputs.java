package dev.tandem.cuda.sampling;

/** A step's sampling inputs: GPU addresses, and the number of rows with adjustments. */
public interface SamplingInputs {
    /** Address of [draws] the sampling parameters of each sampled row. */
    long draws();

    /** Address of [adjustedCount] rows whose logits are adjusted. */
    long adjusted();

    /** Address of those rows' adjustments, one row after another. */
    long adjustments();

    /** The number of rows whose logits are adjusted. */
    int adjustedCount();
}
