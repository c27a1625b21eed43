package dev.tandem.bench.ideal;

/**
 * One shape of step, a column of the linear program.
 *
 * @param kind where host tokens are attended for, and how many tokens the step has
 * @param seconds of GPU time
 * @param host what the step uses of the host
 */
record StepShape(Kind kind, double seconds, HostUse host) {
    /**
     * @param placement of the host tokens that the CPU attends for
     * @param prompt tokens
     * @param gpuTokens tokens of sequences on the GPU
     * @param hostTokens tokens that the CPU attends for and that complete all layers
     * @param linkTokens tokens whose KV the GPU streams over the link
     */
    record Kind(Placement placement, double prompt, double gpuTokens, double hostTokens, double linkTokens) {
        double outputTokens() {
            return gpuTokens + hostTokens + linkTokens;
        }

        double fromHost() {
            return hostTokens + linkTokens;
        }
    }

    /**
     * @param cpuSeconds of CPU attention
     * @param linkBytes over the link
     * @param readBytes of host memory
     * @param sequences whose KV is on the host
     * @param tokenSeconds between two tokens of a host sequence
     */
    record HostUse(double cpuSeconds, double linkBytes, double readBytes, double sequences, double tokenSeconds) {
        static final HostUse NONE = new HostUse(0, 0, 0, 0, 0);
    }
}
