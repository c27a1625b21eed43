package dev.tandem.bench.ideal;

import java.util.List;

/**
 * The mix of steps with the most output tokens per second.
 *
 * @param tokensPerSecond output tokens per second
 * @param gpuSequences that the GPU's KV pool holds
 * @param use of the host
 * @param mix the steps that take most of the time, longest first
 * @param limits what keeps it from more, in words
 */
public record Schedule(double tokensPerSecond, double gpuSequences, Use use, List<Part> mix, List<String> limits) {
    /**
     * What a schedule uses of the host, each as a fraction of what there is.
     *
     * @param cpuAttention of the CPU's time
     * @param link of the link's bandwidth
     * @param hostReads of host memory bandwidth
     * @param hostMemory of host memory for KV
     * @param hostTokens fraction of output tokens whose KV is on the host
     * @param hostTokenSeconds mean seconds between two tokens of a host sequence
     */
    public record Use(
            double cpuAttention,
            double link,
            double hostReads,
            double hostMemory,
            double hostTokens,
            double hostTokenSeconds) {}

    /**
     * A step shape and the fraction of time that it takes.
     *
     * @param placement of its host tokens, in words
     * @param prompt tokens per step
     * @param hostTokens per step
     * @param linkTokens per step
     * @param time fraction of all time
     */
    public record Part(String placement, double prompt, double hostTokens, double linkTokens, double time) {}
}
