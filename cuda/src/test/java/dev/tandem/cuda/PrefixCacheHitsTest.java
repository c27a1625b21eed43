package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.fetch.Progress;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Hits in the prefix cache on a GPU: in GPU blocks, in host blocks, and copied in both directions. Checksums of all
 * copies are compared. First tokens equal those of a run without the cache. Prefixes of models with groups of layers
 * are not copied.
 */
@Tag("gpu")
class PrefixCacheHitsTest {
    private static final long SEED = 49;
    private static final Budget BUDGET = new Budget(128, 16, 128);
    private static final int REQUESTS = 8;
    /** A host block, which holds 64 tokens, and a part of the next. */
    private static final int SHARED = 75;

    private PrefixCacheUse use;

    private List<Integer> cold(String family) {
        return run(family, PrefixCacheOptions.OFF, Strategy.GPU_ONLY, Strategy.GPU_ONLY);
    }

    @ParameterizedTest
    @ValueSource(strings = {"deep", "deepgroups"})
    void inGpuBlocks(String family) {
        List<Integer> cold = cold(family);
        assertThat(run(family, PrefixCacheOptions.on(1), Strategy.GPU_ONLY, Strategy.GPU_ONLY))
                .as("seed %d", SEED)
                .isEqualTo(cold);
        assertThat(use.gpuHits()).isGreaterThanOrEqualTo(64 * (REQUESTS - 1));
    }

    @ParameterizedTest
    @ValueSource(strings = {"deep", "deepgroups"})
    void inHostBlocks(String family) {
        List<Integer> cold = cold(family);
        assertThat(run(family, PrefixCacheOptions.on(1), Strategy.FASTDECODE_PLUS, Strategy.FASTDECODE_PLUS))
                .as("seed %d", SEED)
                .isEqualTo(cold);
        assertThat(use.hostHits()).isGreaterThanOrEqualTo(64 * (REQUESTS - 1));
    }

    @Test
    void copiedBackToTheGpu() {
        List<Integer> cold = cold("deep");
        assertThat(run("deep", PrefixCacheOptions.on(1), Strategy.FASTDECODE_PLUS, Strategy.GPU_ONLY))
                .as("seed %d", SEED)
                .isEqualTo(cold);
        assertThat(use.copiedHits()).isGreaterThanOrEqualTo(64);
    }

    /** The step copies a prefix to the host, from which the prefill then returns it layer by layer. */
    @Test
    void copiedToTheHost() {
        List<Integer> cold = cold("deep");
        assertThat(run("deep", PrefixCacheOptions.on(1), Strategy.GPU_ONLY, Strategy.FASTDECODE_PLUS))
                .as("seed %d", SEED)
                .isEqualTo(cold);
        assertThat(use.copiedHits()).isGreaterThanOrEqualTo(64);
    }

    /** First tokens of requests with a common prefix; the first request runs under a strategy of its own. */
    private List<Integer> run(String family, PrefixCacheOptions caching, Strategy first, Strategy others) {
        CudaExecutor executor = new CudaExecutor(
                Checkpoint.open(CudaModelTest.FAMILIES.resolve(family), LoadFormat.DUMMY, SEED),
                CudaModelTest.options(DataType.BFLOAT16, 60, true, 3, 10_000),
                GpuRig.libraries(),
                GpuRig.compiler(),
                Clock.system(),
                Timeline.OFF,
                Progress.SILENT,
                UnaryOperator.identity());
        executor.faults().poisonPools();
        List<Policy> policy = new ArrayList<>(List.of(policy(first)));
        SplittableRandom random = new SplittableRandom(SEED);
        int[] shared = random.ints(SHARED, 3, 301).toArray();
        List<Integer> tokens = new ArrayList<>();
        try (EngineHarness engine = new EngineHarness(
                executor, PolicyScheduler.of((state, why) -> policy.getFirst().draft(state, why)), BUDGET, caching)) {
            for (int i = 0; i < REQUESTS; i++) {
                int[] own = random.ints(3 + 2 * i, 3, 301).toArray();
                engine.submit(
                        "r" + i,
                        IntStream.concat(IntStream.of(shared), IntStream.of(own))
                                .toArray(),
                        EngineHarness.greedy(1));
                engine.run();
                tokens.addAll(engine.tokens("r" + i));
                policy.set(0, policy(others));
            }
            use = engine.loop.stats().prefixCache();
        }
        return tokens;
    }

    private static Policy policy(Strategy strategy) {
        return strategy.policy(HybridModelTest.options(BUDGET, TierRules.neutral()), TestProfile.withCpu(100));
    }
}
