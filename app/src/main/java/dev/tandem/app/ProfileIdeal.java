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
    /** Tokens of the requests that the start assumes, where the GPU pool holds two of them. */
    private static final int PROMPT = 1000;

    private static final int OUTPUT = 400;

    private ProfileIdeal() {}

    /**
     * Holds a result against the ideal of a profile. All strategies of a comparison have the same ideal: gpu-only too
     * is held against it, and leaves its host KV unused.
     *
     * @param result has {@code output_tokens_per_second}
     * @param defaultHostBytes host memory for KV where neither options nor preset set it
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

    private static Ideal of(Profile profile, ExecutorLimits limits, double hostBytes, Budget budget, Lengths lengths) {
        return Ideal.of(IdealCase.of(
                profile,
                limits.gpuKvBytes(),
                hostBytes,
                limits.kvBytesPerToken(),
                lengths,
                new Bounds(Double.POSITIVE_INFINITY, budget.maxBatchTokens(), budget.maxSequences())));
    }

    /** One line for the start: what offloading brings at best, for requests of a usual length. */
    static String line(Profile profile, ExecutorLimits limits, Budget budget) {
        double held = PROMPT + OUTPUT / 2.0;
        double pool = (double) limits.gpuBlocks() * limits.blockTokens();
        double scale = Math.min(1, pool / 2 / held);
        Lengths lengths = Lengths.divisible(Math.ceil(scale * PROMPT), Math.ceil(scale * OUTPUT), 0);
        double hostBytes = (double) limits.hostBlocks() * limits.hostBlockTokens() * limits.kvBytesPerToken();
        return IdealFields.line(
                of(profile, limits, hostBytes, budget, lengths),
                "%.0f prompt and %.0f output tokens".formatted(lengths.prompt(), lengths.output()));
    }
}
