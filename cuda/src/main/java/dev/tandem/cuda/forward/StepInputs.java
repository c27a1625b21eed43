package dev.tandem.cuda.forward;

/** GPU addresses of what the forward pass of a sub-batch reads besides weights and KV. */
public interface StepInputs {
    /** Counts of decode attention, of prefill attention beside it, and of host tokens: [24] ints. */
    long header();

    /** Counts of decode attention in layers with a sliding window: [4] ints. */
    long windowedHeader();

    /** [rows] token ids; -1 - i stands for the i-th token that the step before chose. */
    long tokens();

    /** [rows] positions in their sequences. */
    long positions();

    /**
     * [rows] where K and V are stored in the layers of a group; -1: nowhere; below: -2 - index of a host token, in all
     * groups.
     */
    long slots(int group);

    /** [samples] rows to sample. */
    long samples();

    /** [slots] indices of the in-flight tokens that enter layer 0, or -1. */
    long admitted();

    /** [slots] draws of those. */
    long admittedDraws();

    /** [resumed] indices of the in-flight tokens that finish within the step, in the order of their rows. */
    long resumed();

    /** [tiles] of prefill attention. */
    long tiles();

    /** Likewise, in layers with a sliding window: their block tables begin elsewhere than those of the others. */
    long windowedTiles();

    /** [sequences] of decode attention. */
    long sequences();

    /** Likewise, in layers with a sliding window: each begins at the first block of its window. */
    long windowedSequences();

    /** Block tables of a group of layers, one after another. */
    long tables(int group);
}
