package dev.tandem.app;

import dev.tandem.bench.Workload;
import dev.tandem.bench.ideal.Bounds;
import dev.tandem.bench.ideal.Ideal;
import dev.tandem.bench.ideal.IdealCase;
import dev.tandem.bench.ideal.IdealFields;
import dev.tandem.bench.ideal.Lengths;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.schedule.Budget;
import java.util.Map;

/** The ideal of the profile at hand, with the KV memory of an executor. */
final class ProfileIdeal {
    private ProfileIdeal() {}

    /**
     * Holds a result against the ideal of a profile. All strategies of a comparison have the same ideal: gpu-only too
     * is held against it, and leaves its host KV unused.
     *
     * @param result has {@code output_tokens_per_second}
     * @param defaultHostBytes host memory for KV where neither options nor preset set it
     * @throws IllegalArgumentException if neither tier holds a request of the workload
     */
    static void complete(
            Map<String, Object> result,
            ModelOptions options,
            Profile profile,
            ExecutorLimits limits,
            Workload work,
            double defaultHostBytes) {
        double hostBytes = options.memory
                .hostKv
                .or(() -> options.advanced.preset.map(Preset::hostKv))
                .map(size -> (double) size.bytes())
                .orElse(defaultHostBytes);
        IdealFields.complete(result, of(profile, limits, hostBytes, options.budget(), Lengths.of(work)));
    }

    /** @param hostBytes host memory for KV, whether or not the executor's strategy uses it */
    static Ideal of(Profile profile, ExecutorLimits limits, double hostBytes, Budget budget, Lengths lengths) {
        return Ideal.of(IdealCase.of(
                profile,
                limits.gpuKvBytes(),
                hostBytes,
                limits.kvBytesPerToken(),
                lengths,
                new Bounds(Double.POSITIVE_INFINITY, budget.maxBatchTokens(), budget.maxSequences())));
    }
}
