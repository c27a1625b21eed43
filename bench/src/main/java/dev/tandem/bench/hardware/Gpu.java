package dev.tandem.bench.hardware;

/**
 * One GPU, as its data sheet has it.
 *
 * @param name of the product
 * @param memoryBytes usable memory of one GPU
 * @param bandwidth bytes per second of its memory
 * @param flops dense 16-bit FLOP/s
 * @param linkBandwidth bytes per second of one GPU's link to host memory, in one direction, as copies reach it
 */
public record Gpu(String name, double memoryBytes, double bandwidth, double flops, double linkBandwidth) {}
