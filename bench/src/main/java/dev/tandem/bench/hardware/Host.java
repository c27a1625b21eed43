package dev.tandem.bench.hardware;

/**
 * The host of one or more GPUs: the part of it that the server may use.
 *
 * @param name of the CPU
 * @param memoryBandwidth bytes per second that these cores may read, as the data sheet has it
 * @param kvBytes host memory for KV
 * @param cores physical cores that compute attention
 * @param coreLoadRate bytes of 16-bit KV that a core loads and widens per second
 * @param coreFlops 32-bit FLOP/s of a core in the attention kernel
 */
public record Host(
        String name, double memoryBandwidth, double kvBytes, int cores, double coreLoadRate, double coreFlops) {
    private static final int VALUE_BYTES = 2;

    /**
     * Bytes of KV per second for which these cores can compute decode attention, if memory is no limit. Each 16-bit
     * value takes part in one multiplication and one addition per query head of its group, so a byte takes
     * {@code group} FLOP. Values of fewer bits are widened at the same rate in values.
     *
     * @param group query heads per KV head
     * @param kvValueBytes bytes of one value of K or V
     */
    public double computeBandwidth(int group, double kvValueBytes) {
        double secondsPerByte = 1 / coreLoadRate + group / coreFlops;
        return cores / secondsPerByte * kvValueBytes / VALUE_BYTES;
    }
}
