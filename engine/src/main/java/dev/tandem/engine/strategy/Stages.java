package dev.tandem.engine.strategy;

/**
 * The two stages of a layer in which two sub-batches take turns (NEO §3.2). The first stage is the linear work of
 * sub-batch 0; the second is that of sub-batch 1 and all attention of the GPU. NEO's time of a layer is
 * {@code max(T_l0, T_ca1) + max(T_l1 + T_ga0, T_ca0)}. Multiplied out, it is the longest of four times: the GPU's, the
 * CPU's, and that of each sub-batch through its stage, to the CPU and back. This class adds the overhead of handing
 * over. All times are seconds of one layer.
 *
 * @param first T_l0
 * @param second T_l1 + T_ga0
 * @param overhead of the GPU, per stage
 * @param trip of a sub-batch to the CPU and back
 */
public record Stages(double first, double second, double overhead, double trip) {
    /** Seconds of the GPU's work of a layer. */
    public double gpu() {
        return 2 * overhead + first + second;
    }

    /** Seconds of a layer in which the CPU's attention for both sub-batches overlaps the GPU's work. */
    double layer(double cpu0, double cpu1) {
        return Math.max(longestPath(cpu0, cpu1), cpu0 + cpu1);
    }

    /**
     * Seconds of all layers. In the last layer sub-batch 0 has no stage behind which the CPU's attention for sub-batch
     * 1 hides: only its sampled rows go on. So a step that is as long as the GPU's work waits once more (ADR 114).
     *
     * @param layers number of layers
     * @param behind seconds of the GPU's work after the last stage of sub-batch 1: the attention of sub-batch 0 and the
     *     projections of its sampled rows
     */
    public double layers(int layers, double cpu0, double cpu1, double behind) {
        double last = cpu1 > 0 ? Math.max(0, cpu1 + trip - behind) : 0;
        return Math.max(layers * gpu() + last, layers * layer(cpu0, cpu1));
    }

    /** The longest of the times, except the CPU's. */
    private double longestPath(double cpu0, double cpu1) {
        return Math.max(gpu(), Math.max(path(first, cpu0), path(second, cpu1)));
    }

    private double path(double stage, double cpuAttention) {
        return cpuAttention > 0 ? stage + cpuAttention + trip : 0;
    }

    /**
     * Whether sub-batch 0 hides: T_ca0 ≤ T_l1 + T_ga0, corrected by the overheads. The path of the sub-batch is then no
     * longer than the GPU's time.
     */
    boolean hideZero(double cpu0) {
        return hides(cpu0, second);
    }

    /** Whether sub-batch 1 hides: T_ca1 ≤ T_l0, corrected by the overheads. */
    boolean hideOne(double cpu1) {
        return hides(cpu1, first);
    }

    private boolean hides(double cpuAttention, double behind) {
        return cpuAttention == 0 || slack(cpuAttention, behind) >= 0;
    }

    /** Seconds by which the CPU's attention for sub-batch 0 may grow and still hides. */
    double slackZero(double cpu0) {
        return slack(cpu0, second);
    }

    /** Seconds by which the CPU's attention for sub-batch 1 may grow and still hides. */
    double slackOne(double cpu1) {
        return slack(cpu1, first);
    }

    private double slack(double cpuAttention, double behind) {
        return behind + 2 * overhead - trip - cpuAttention;
    }

    /** Whether the CPU computes both sub-batches within the layer's time. */
    boolean cpuKeepsUp(double cpu0, double cpu1) {
        return cpu0 + cpu1 <= longestPath(cpu0, cpu1);
    }
}
