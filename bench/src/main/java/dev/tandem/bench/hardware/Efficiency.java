package dev.tandem.bench.hardware;

/**
 * The fraction of each data sheet figure that kernels reach.
 *
 * @param gpuBandwidth of GPU memory bandwidth, by GEMMs of few tokens
 * @param gpuAttention of GPU memory bandwidth, by decode attention
 * @param gpuFlops of dense FLOP/s, by GEMMs
 * @param prefillAttention of the GEMMs' FLOP/s, by prefill attention
 * @param hostBandwidth of host memory bandwidth, by plain reads
 * @param hostAttention of plain reads, by the attention kernel
 */
public record Efficiency(
        double gpuBandwidth,
        double gpuAttention,
        double gpuFlops,
        double prefillAttention,
        double hostBandwidth,
        double hostAttention) {}
