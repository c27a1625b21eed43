package dev.tandem.bench.hardware;

/** Where the times of a {@link Hardware} come from. */
public sealed interface Provenance {
    /**
     * A profile was measured on this machine.
     *
     * @param profile name of the profile's file, without folder
     * @param model that was measured
     * @param kvBytesPerToken of that model, in all layers
     */
    record Measured(String profile, String model, double kvBytesPerToken) implements Provenance {}

    /** Times are computed from data sheet figures: max of memory time and arithmetic time, with a soft corner. */
    record DataSheet() implements Provenance {}

    /** Text for reports, such as {@code measured} or {@code roofline}. */
    default String describe(Hardware hardware) {
        return switch (this) {
            case Measured measured -> "measured (" + measured.profile() + ")";
            case DataSheet _ ->
                "roofline(%.0f GB/s, %.1f TFLOP/s, efficiency %.2f and %.2f)"
                        .formatted(
                                hardware.gpu().bandwidth() / 1e9,
                                hardware.gpu().flops() / 1e12,
                                hardware.efficiency().gpuBandwidth(),
                                hardware.efficiency().gpuFlops());
        };
    }
}
