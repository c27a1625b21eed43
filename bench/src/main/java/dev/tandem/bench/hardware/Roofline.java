package dev.tandem.bench.hardware;

import dev.tandem.engine.cost.Curve;
import dev.tandem.engine.cost.Profile;
import java.util.TreeMap;
import java.util.function.DoubleUnaryOperator;
import java.util.stream.DoubleStream;

/**
 * Seconds of a model's components on a machine, from data sheet figures. A GEMM takes the 4-norm of its memory time and
 * its arithmetic time: near the larger of both, and 19 % above it where they are equal.
 */
public record Roofline(Hardware hardware, ModelShape model) {
    /**
     * Seconds per pass over the weights that no data sheet has: kernel launches and tails. An 8B model on an H200 takes
     * this much longer than its reads (docs/results/cuda.jsonl).
     */
    public static final double PASS_SECONDS = 0.25e-3;
    /** Seconds per layer of the way to the CPU and back where the GPU waits; measured 9 to 12 us on an H200. */
    public static final double TRIP_SECONDS = 10e-6;
    /** Factor of a step beside which the CPU computes attention; measured on an H200 with in-flight tokens. */
    public static final double HOST_LOAD = 1.02;
    /** Seconds until a CPU attention task of few bytes is done; measured with 14 workers, by tandem profile. */
    private static final double HOST_TASK_SECONDS = 10e-6;

    private static final int MAX_TOKENS = 1 << 15;
    private static final int POINTS_PER_DOUBLING = 2;

    /** Seconds of one layer's GEMMs, all-reduces included, for this many tokens. */
    public double linearPerLayer(double tokens) {
        return gemm(model.layerBytes(), model.layerParameters(), tokens)
                + hardware.tensorParallel().secondsPerLayer(tokens, model.hidden());
    }

    /** Seconds of the output head for this many sampled tokens. */
    public double head(double tokens) {
        return gemm(model.headBytes(), model.headParameters(), tokens);
    }

    /**
     * Seconds of one pass over all weights, for tokens of prompts and for tokens that are sampled. One memory time and
     * one arithmetic time, over all layers and the output head.
     */
    public double pass(double promptTokens, double sampledTokens) {
        double tokens = promptTokens + sampledTokens;
        if (tokens <= 0) {
            return 0;
        }
        double layers = model.layers() * model.layerParameters();
        double arithmetic =
                2 * (promptTokens * layers + sampledTokens * (layers + model.headParameters())) / gpuFlops();
        double memory = (model.layers() * model.layerBytes() + model.headBytes()) / gpuBandwidth();
        return soft(memory, arithmetic)
                + model.layers() * hardware.tensorParallel().secondsPerLayer(tokens, model.hidden())
                + PASS_SECONDS;
    }

    /** Seconds in which all GPUs read {@code bytes} and use each of {@code parameters} once per token. */
    private double gemm(double bytes, double parameters, double tokens) {
        if (tokens <= 0) {
            return 0;
        }
        return soft(bytes / gpuBandwidth(), tokens * 2 * parameters / gpuFlops());
    }

    /** The 4-norm of two times. */
    static double soft(double memory, double arithmetic) {
        return Math.pow(Math.pow(memory, 4) + Math.pow(arithmetic, 4), 0.25);
    }

    /** Bytes per second that GEMMs read from the memories of all GPUs. */
    public double gpuBandwidth() {
        return hardware.gpu().bandwidth()
                * hardware.efficiency().gpuBandwidth()
                * hardware.tensorParallel().degree();
    }

    /** FLOP/s that GEMMs reach on all GPUs. */
    public double gpuFlops() {
        return hardware.gpu().flops()
                * hardware.efficiency().gpuFlops()
                * hardware.tensorParallel().degree();
    }

    /** Seconds of one layer's prefill attention, by pairs of query token and context token: 4 FLOP per dimension. */
    public double prefillAttentionPerLayer(double pairs) {
        return pairs
                * 4
                * model.queryWidth()
                / (gpuFlops() * hardware.efficiency().prefillAttention());
    }

    /** Seconds of one layer's decode attention on the GPU, by tokens of context. */
    public double gpuAttentionPerLayer(double contextTokens) {
        double bandwidth = hardware.gpu().bandwidth()
                * hardware.efficiency().gpuAttention()
                * hardware.tensorParallel().degree();
        return contextTokens * model.kvBytesPerToken() / model.layers() / bandwidth;
    }

    /** Seconds of one layer's decode attention on the CPU, by tokens of context of all host tokens. */
    public double cpuAttentionPerLayer(double contextTokens) {
        return HOST_TASK_SECONDS
                + contextTokens * model.kvBytesPerToken() / model.layers() / hardware.hostAttentionBandwidth(model);
    }

    /** Seconds of moving KV of all layers between the tiers, by bytes. */
    public double transfer(double bytes) {
        return bytes / hardware.linkBandwidth();
    }

    /** The profile that a measurement on this machine would have, as the cost model and the simulator read it. */
    public Profile profile() {
        TreeMap<Integer, Curve> cpu = new TreeMap<>();
        for (int rows : new int[] {1, 64, 1024}) {
            cpu.put(rows, curve("cpu-attention", 1, MAX_TOKENS, context -> cpuAttentionPerLayer(rows * context)));
        }
        String name = hardware.name() + "; " + hardware.describeProvenance() + "; " + model.layers() + " layers of "
                + model.hidden();
        return Profile.builder(name, model.layers())
                .linear(curve("linear", 1, MAX_TOKENS, this::linearPerLayer))
                .prefillAttention(
                        curve("prefill-attention", 1, (double) MAX_TOKENS * MAX_TOKENS, this::prefillAttentionPerLayer))
                .gpuAttention(curve("gpu-attention", 1, 1 << 24, this::gpuAttentionPerLayer))
                .cpuAttention(cpu)
                .transfer(curve("transfer", 1 << 10, 1L << 36, this::transfer))
                .preLayer(curve("pre-layer", 1, 1, tokens -> model.hidden() * 4.0 / gpuBandwidth()))
                .postLayer(curve("post-layer", 1, MAX_TOKENS, this::head))
                .stepOverhead(PASS_SECONDS)
                .stageOverhead(TRIP_SECONDS / 2)
                .tripOverhead(TRIP_SECONDS)
                .hostLoad(HOST_LOAD)
                .build();
    }

    /** A curve through points that lie half a doubling apart, so that interpolation is within 1 % of the formula. */
    private static Curve curve(String name, double first, double last, DoubleUnaryOperator seconds) {
        int doublings = (int) Math.ceil(Math.log(last / first) / Math.log(2));
        double[] sizes = DoubleStream.iterate(0, step -> step + 1)
                .limit((long) doublings * POINTS_PER_DOUBLING + 1)
                .map(step -> Math.rint(first * Math.pow(2, step / POINTS_PER_DOUBLING)))
                .distinct()
                .toArray();
        return new Curve(name, sizes, DoubleStream.of(sizes).map(seconds).toArray());
    }
}
