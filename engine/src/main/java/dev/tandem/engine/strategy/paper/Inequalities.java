package dev.tandem.engine.strategy.paper;

/** Equations 1 to 8 of APEX §3.2, as printed. Times are seconds of one layer; rates are context tokens per second. */
final class Inequalities {
    private Inequalities() {}

    /**
     * The terms of the equations.
     *
     * @param linear T_glinear, the GPU's linear operations for the decode batch
     * @param gpuAttention T_gatt, the GPU's attention for the decode batch
     * @param prefillLinear T_glinear_pref, the GPU's linear operations for prefills
     * @param prefillAttention T_gatt_pref, the GPU's attention for prefills
     * @param gpuRate N_G, context tokens whose attention the GPU computes per second
     * @param cpuRate N_C, context tokens whose attention the CPU computes per second
     */
    record Times(
            double linear,
            double gpuAttention,
            double prefillLinear,
            double prefillAttention,
            double gpuRate,
            double cpuRate) {}

    /** (1): a decode cycle of gpu-only. */
    static double gpuOnlyTime(Times t) {
        return t.linear() + t.gpuAttention();
    }

    /** (2): a decode cycle of the pipeline, in which the linear operations run twice. */
    static double decodeCycle(Times t) {
        return 2 * t.linear() + t.gpuAttention();
    }

    /** (3): context tokens of the GPU's decodes. */
    static double gpuTokens(Times t) {
        return t.gpuRate() * t.gpuAttention();
    }

    /** (5), left side: the pipeline. */
    static double decodePipeThroughput(Times t) {
        return (gpuTokens(t) + t.cpuRate() * decodeCycle(t)) / decodeCycle(t);
    }

    /** (5), right side: gpu-only; 0 without GPU decodes, a case that (5) does not cover. */
    static double decodeGpuThroughput(Times t) {
        return gpuTokens(t) == 0 ? 0 : gpuTokens(t) / gpuOnlyTime(t);
    }

    /** (6), equivalent to (5) with GPU decodes: {@code N_G / N_C < 2 T_l / T_a + 3 + T_a / T_l}. */
    static boolean decodesGain(Times t) {
        return t.gpuRate() / t.cpuRate() < 2 * t.linear() / t.gpuAttention() + 3 + t.gpuAttention() / t.linear();
    }

    /** (7): a cycle of the pipeline with prefills. */
    static double mixedCycle(Times t) {
        return t.prefillLinear() + t.prefillAttention() + t.linear() + t.gpuAttention();
    }

    /** (8), left side: the pipeline. */
    static double mixedPipeThroughput(Times t) {
        double cycle = gpuOnlyTime(t);
        return cycle == 0 ? t.cpuRate() : (gpuTokens(t) + t.cpuRate() * mixedCycle(t)) / cycle;
    }

    /** (8), right side: gpu-only; 0 without GPU decodes. */
    static double mixedGpuThroughput(Times t) {
        return gpuTokens(t) == 0 ? 0 : gpuTokens(t) / t.gpuAttention();
    }
}
