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
import java.util.Optional;

/** The ideal of the profile at hand, with the KV memory of an executor. */
final class ProfileIdeal {
    private ProfileIdeal() {}

    /**
     * Holds a result against the ideal of a profile. All strategies of a comparison have the same ideal: gpu-only too
     * is held against it, and leaves its host KV unused. No token of the ideal takes longer than {@code --tpot-target}.
     * The ideal computes all prompts whole, so that a workload whose prompts the prefix cache has in part is left out,
     * and conversations of several turns, whose prompts grow.
     *
     * @param result has the throughput of {@link IdealFields#throughput}
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
        boolean cached = work.sharedPrompt() > 0 && options.memory.prefixCaching.orElse(false);
        if (cached || work.turns() > 1) {
            System.err.println("note: The result has no share_of_ideal: the ideal is of requests with prompts of their"
                    + " own, and those of --workload " + work.name()
                    + (cached ? " are cached in part." : " grow with each turn."));
            return;
        }
        double hostBytes = options.memory
                .hostKv
                .or(() -> options.advanced.preset.map(Preset::hostKv))
                .map(size -> (double) size.bytes())
                .orElse(defaultHostBytes);
        double targetMillis = options.strategy.tpotTarget();
        Bounds bounds = bounds(options.budget(), targetMillis);
        Optional<Ideal> ideal = Ideal.find(caseOf(profile, limits, hostBytes, bounds, Lengths.of(work)));
        ideal.ifPresentOrElse(
                solved -> IdealFields.complete(result, solved),
                () -> System.err.println("note: The result has no share_of_ideal: no schedule reaches --tpot-target "
                        + targetMillis + " on this machine. Raise the target."));
    }

    /**
     * The ideal of a server. Where no schedule keeps the max time per token, it is the one without that bound.
     *
     * @param hostBytes host memory for KV, whether or not the executor's strategy uses it
     */
    static Ideal of(Profile profile, ExecutorLimits limits, double hostBytes, Bounds bounds, Lengths lengths) {
        return Ideal.find(caseOf(profile, limits, hostBytes, bounds, lengths))
                .orElseGet(() -> Ideal.of(caseOf(
                        profile, limits, hostBytes, bounds.withMaxTokenSeconds(Double.POSITIVE_INFINITY), lengths)));
    }

    /** @param targetMillis max milliseconds per token; 0 for none */
    static Bounds bounds(Budget budget, double targetMillis) {
        double seconds = targetMillis > 0 ? targetMillis / 1e3 : Double.POSITIVE_INFINITY;
        return new Bounds(seconds, budget.maxBatchTokens(), budget.maxSequences());
    }

    private static IdealCase caseOf(
            Profile profile, ExecutorLimits limits, double hostBytes, Bounds bounds, Lengths lengths) {
        Lengths held = lengths.within(limits.span());
        return IdealCase.of(profile, limits.gpuKvBytes(), hostBytes, limits.kvBytesPerToken(), held, bounds);
    }
}
