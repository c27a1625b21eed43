package dev.tandem.bench.reproduce;

import dev.tandem.bench.Workload;
import dev.tandem.engine.cost.CostModel;

/**
 * The factors of the speed-up S = rho_c rho_t (APEX section 5.2), from a cost model.
 *
 * @param computeRatio rho_c: attention speed of the CPU divided by that of the GPU
 * @param decodeFraction rho_t: fraction of decode steps in the time of the GPU alone
 */
record SpeedupFormula(double computeRatio, double decodeFraction) {
    /** The factors for a panel's pool and a workload. */
    static SpeedupFormula of(CostModel cost, Panel panel, Workload workload) {
        double prompt = workload.meanPrompt();
        double output = prompt / workload.promptFraction();
        double context = workload.meanTokensHeld();
        int batch = Math.max(1, (int) (panel.setting().gpuBlocks() * Panel.Setting.BLOCK_TOKENS / context));
        long tokens = Math.round(batch * context);
        double decode = output / batch * (cost.linear(batch) + cost.gpuAttention(tokens));
        double prefill =
                cost.linear((int) Math.round(prompt)) + cost.prefillAttention(Math.round(prompt * (prompt + 1) / 2));
        double ratio = cost.gpuAttention(tokens) / cost.cpuAttention(batch, tokens);
        return new SpeedupFormula(ratio, decode / (decode + prefill));
    }

    double product() {
        return computeRatio * decodeFraction;
    }
}
