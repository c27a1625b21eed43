package dev.tandem.cuda.forward;

import java.util.EnumSet;
import java.util.Set;

/**
 * The sizes that decide which kernels a sub-batch launches. Kernels read everything else from its {@link StepInputs}.
 *
 * @param rows of the sub-batch, including its slots and resumed tokens, which come last
 * @param sampled rows that are sampled, including these
 * @param decodes whether there are rows of decode attention
 * @param tiles of prefill attention
 * @param slots for in-flight tokens that nothing waits for
 * @param resumed in-flight tokens that finish within the step; each has a slot of its own behind the others
 * @param hostTokens same-layer tokens, which come before the slots
 * @param parts all, unless the time of some kernels is measured
 */
public record Extent(
        int rows, int sampled, boolean decodes, int tiles, int slots, int resumed, int hostTokens, Set<Part> parts) {
    /** Kinds of kernels that are timed separately. */
    public enum Part {
        /** GEMMs, including the output head. */
        GEMM,
        ATTENTION,
        /** Norms, rotation, SwiGLU, embedding, argmax. */
        ROW_WISE
    }

    /** Rows without attention, tiles, slots or host tokens. */
    public static Extent of(int rows, int sampled) {
        return new Extent(rows, sampled, false, 0, 0, 0, 0, EnumSet.allOf(Part.class));
    }

    /** Rows of decode attention alone. */
    public static Extent decode(int rows, int sampled) {
        return of(rows, sampled).withDecodes(true);
    }

    public Extent withDecodes(boolean some) {
        return new Extent(rows, sampled, some, tiles, slots, resumed, hostTokens, parts);
    }

    public Extent withTiles(int count) {
        return new Extent(rows, sampled, decodes, count, slots, resumed, hostTokens, parts);
    }

    /**
     * The same with slots.
     *
     * @param count slots, which {@link #rows} and {@link #sampled} already count
     */
    public Extent withSlots(int count) {
        return new Extent(rows, sampled, decodes, tiles, count, resumed, hostTokens, parts);
    }

    /**
     * The same with resumed tokens.
     *
     * @param count resumed tokens, which {@link #rows} and {@link #sampled} already count
     */
    public Extent withResumed(int count) {
        return new Extent(rows, sampled, decodes, tiles, slots, count, hostTokens, parts);
    }

    /** The same sub-batch with fewer rows of in-flight tokens, which neither compute nor are sampled. */
    Extent withInFlight(int someSlots, int someResumed) {
        int fewer = slots - someSlots + resumed - someResumed;
        return new Extent(rows - fewer, sampled - fewer, decodes, tiles, someSlots, someResumed, hostTokens, parts);
    }

    /**
     * The same with host tokens.
     *
     * @param count host tokens, which {@link #rows} already counts
     */
    public Extent withHostTokens(int count) {
        return new Extent(rows, sampled, decodes, tiles, slots, resumed, count, parts);
    }

    public Extent only(Set<Part> some) {
        return new Extent(rows, sampled, decodes, tiles, slots, resumed, hostTokens, some);
    }

    /** The same sub-batch after the last layer's attention, where only sampled rows go on. */
    Extent sampledOnly() {
        return new Extent(sampled, sampled, decodes, tiles, slots, resumed, hostTokens, parts);
    }

    /**
     * The extent for which this sub-batch's graph is captured. Kernels read the number of host tokens from the step's
     * inputs, so one graph serves all numbers of them.
     */
    public Extent graphShape() {
        return withHostTokens(hostTokens == 0 ? 0 : HostTransferLauncher.MAX_RECEIVERS);
    }

    /** Rows of in-flight tokens. */
    int inFlight() {
        return slots + resumed;
    }

    /** The row of the first slot or resumed token; {@code Integer.MAX_VALUE} without any. */
    int firstSlot() {
        return inFlight() == 0 ? Integer.MAX_VALUE : rows - inFlight();
    }

    boolean has(Part part) {
        return parts.contains(part);
    }
}
