package dev.tandem.engine.strategy.paper;

/**
 * Equations 1 to 8 of APEX §3.2, as printed. Times are seconds of one layer, rates are tokens of context per second.
 */
final class Inequalities {
    private Inequalities() {}

    /**
     * @param linear T_glinear, the GPU's linear operations for the decode batch
     * @param gpuAttention T_gatt, its attention
     * @param prefillLinear T_glinear_pref
     * @param prefillAttention T_gatt_pref
     * @param gpuRate N_G, tokens that the GPU attends to per second
     * @param cpuRate N_C, tokens that the CPU attends to per second
     */
    record Times(
            double linear,
            double gpuAttention,
            double prefillLinear,
            double prefillAttention,
            double gpuRate,
            double cpuRate) {}

    /** (1) */
    static double gpuOnlyTime(Times t) {
        return t.linear() + t.gpuAttention();
    }

    /** (2): the linear operations run twice. */
    static double decodeCycle(Times t) {
        return 2 * t.linear() + t.gpuAttention();
    }

    /** (3) */
    static double gpuTokens(Times t) {
        return t.gpuRate() * t.gpuAttention();
    }

    /** (5), left. */
    static double decodePipeThroughput(Times t) {
        return (gpuTokens(t) + t.cpuRate() * decodeCycle(t)) / decodeCycle(t);
    }

    /** (5), right; 0 without GPU decodes, which (5) does not foresee. */
    static double decodeGpuThroughput(Times t) {
        return gpuTokens(t) == 0 ? 0 : gpuTokens(t) / gpuOnlyTime(t);
    }

    /** (6), equivalent to (5) where the GPU decodes: {@code N_G / N_C < 2 T_l / T_a + 3 + T_a / T_l}. */
    static boolean decodesGain(Times t) {
        return t.gpuRate() / t.cpuRate() < 2 * t.linear() / t.gpuAttention() + 3 + t.gpuAttention() / t.linear();
    }

    /** (7) */
    static double mixedCycle(Times t) {
        return t.prefillLinear() + t.prefillAttention() + t.linear() + t.gpuAttention();
    }

    /** (8), left. */
    static double mixedPipeThroughput(Times t) {
        double cycle = gpuOnlyTime(t);
        return cycle == 0 ? t.cpuRate() : (gpuTokens(t) + t.cpuRate() * mixedCycle(t)) / cycle;
    }

    /** (8), right; 0 without GPU decodes. */
    static double mixedGpuThroughput(Times t) {
        return gpuTokens(t) == 0 ? 0 : gpuTokens(t) / t.gpuAttention();
    }
}
