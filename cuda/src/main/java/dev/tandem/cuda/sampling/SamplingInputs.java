package dev.tandem.cuda.sampling;

/** What sampling reads of a step: GPU addresses, and how many rows have adjustments. */
public interface SamplingInputs {
    /** [draws] how each sampled row is drawn. */
    long draws();

    /** [adjustedCount] rows whose logits are adjusted. */
    long adjusted();

    /** Adjustments of those rows, one row after another. */
    long adjustments();

    /** Rows whose logits are adjusted. */
    int adjustedCount();
}
