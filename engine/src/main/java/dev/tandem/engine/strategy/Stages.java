package dev.tandem.engine.strategy;

/**
 * A layer of two batches that take turns (NEO §3.2): the first batch's linear work; then the second's, and all
 * attention of the GPU. NEO's {@code max(T_l0, T_ca1) + max(T_l1 + T_ga0, T_ca0)}, multiplied out, is the longest of
 * four times: the GPU's, the CPU's, and either batch's on its way through its stage, to the CPU and back. To these
 * comes what handing over costs. All in seconds of one layer.
 *
 * @param first T_l0
 * @param second T_l1 + T_ga0
 * @param overhead of the GPU, a stage
 * @param trip of a batch, to the CPU and back
 */
public record Stages(double first, double second, double overhead, double trip) {
    double gpu() {
        return 2 * overhead + first + second;
    }

    /** With the CPU's attention for either batch beside the GPU's work. */
    public double layer(double cpu0, double cpu1) {
        return Math.max(longestWay(cpu0, cpu1), cpu0 + cpu1);
    }

    /** Without the CPU's own time. */
    private double longestWay(double cpu0, double cpu1) {
        return Math.max(gpu(), Math.max(way(first, cpu0), way(second, cpu1)));
    }

    private double way(double stage, double cpuAttention) {
        return cpuAttention > 0 ? stage + cpuAttention + trip : 0;
    }

    /** T_ca0 ≤ T_l1 + T_ga0, and what handing over leaves: the batch's way is no longer than the GPU's time. */
    boolean hideZero(double cpu0) {
        return hides(cpu0, second);
    }

    /** T_ca1 ≤ T_l0, likewise. */
    boolean hideOne(double cpu1) {
        return hides(cpu1, first);
    }

    private boolean hides(double cpuAttention, double behind) {
        return cpuAttention == 0 || cpuAttention <= behind + 2 * overhead - trip;
    }

    /** Whether the CPU has the time for both. */
    boolean cpuKeepsUp(double cpu0, double cpu1) {
        return cpu0 + cpu1 <= longestWay(cpu0, cpu1);
    }
}
