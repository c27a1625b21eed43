package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.execute.ExecutorLimits;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.Calibrator;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.Guard;
import dev.tandem.engine.strategy.RidingRows;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.Strategy;
import dev.tandem.engine.strategy.TierRules;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The real schedulers over measured profiles, in virtual time: what a change of a policy does to throughput shows here before
 * it shows on a machine. Bounds are some per cent below what was found when they were set.
 */
class StrategiesPayTest {
    private static final long GIB = 1L << 30;
    /** What gpu-only does, by machine and workload. */
    private static final Map<String, Double> ALONE = new ConcurrentHashMap<>();

    /** Pools and limits of the presets of {@code bench}. */
    private enum Machine {
        T4_CLASS("t4-class", 54, 60 * GIB, 524_288, 832, 64, 256, 100),
        T4_TIGHT("t4-tight", 54, 44 * GIB, 524_288, 832, 64, 256, 100),
        /** Its host reads KV at 136 GB/s, the other at 122. */
        T4_TIGHT_FASTER_HOST("t4-tight-faster-host", 54, 44 * GIB, 524_288, 832, 64, 256, 100),
        /** Prompts come in waves of minutes. */
        A10G_CLASS("a10g-class", 1650, 72 * GIB, 131_072, 20_480, 256, 512, 1000),
        H200_TIGHT("h200", 1650, 36 * GIB, 131_072, 20_480, 256, 256, 100),
        /** The same when cublasLt computed the products of steps in which prompts ride, and riding gained gpu-only less. */
        H200_TIGHT_LIBRARY("h200-library", 1650, 36 * GIB, 131_072, 20_480, 256, 256, 100);

        final Profile profile;
        final int gpuBlocks;
        final long hostBytes;
        final long tokenBytes;
        final int batchTokens;
        final int sequences;
        final int hostSequences;
        final int seconds;

        Machine(
                String profile, int gpuBlocks, long hostBytes, long tokenBytes, int batchTokens, int sequences, int hostSequences,
                int seconds) {
            try {
                Path file = Path.of("../docs/results/profiles", profile + ".txt");
                this.profile = Profile.parse(Files.readString(file), file.toString());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            this.gpuBlocks = gpuBlocks;
            this.hostBytes = hostBytes;
            this.tokenBytes = tokenBytes;
            this.batchTokens = batchTokens;
            this.sequences = sequences;
            this.hostSequences = hostSequences;
            this.seconds = seconds;
        }

        /** Output tokens a second in a steady window. */
        double rate(Strategy strategy, String workload, boolean guarded) {
            return rate(strategy, workload, guarded, 1, seconds);
        }

        /** @param slower steps with rows in flight take so many times as long as anybody predicts */
        double rate(Strategy strategy, String workload, boolean guarded, double slower, int seconds) {
            Workload work = Workload.parse(workload, 0);
            int hostBlocks = hostBlocks(strategy);
            double held = (16.0 * gpuBlocks + 64.0 * hostBlocks) / work.meanTokensHeld();
            int concurrency = (int) Math.min(budget(strategy).maxSequences(), Math.ceil(held) + 2);
            return rate(run(strategy, work, guarded, slower).steady(concurrency, 400, seconds));
        }

        /** Output tokens a second until the last of some requests has ended. */
        double wholeRate(Strategy strategy, String workload, int requests) {
            return rate(run(strategy, Workload.parse(workload, 0), false, 1).whole(requests));
        }

        private Profile withHostLoad(double load) {
            String text = profile.format().replaceFirst("host-load .*", "host-load " + load);
            return Profile.parse(text, profile.name());
        }

        private static double rate(Map<String, Object> result) {
            assertThat(result.get("failed")).isEqualTo(0);
            return ((Number) result.get("output_tokens_per_second")).doubleValue();
        }

        private int hostBlocks(Strategy strategy) {
            return strategy == Strategy.GPU_ONLY ? 0 : (int) (hostBytes / (64 * tokenBytes));
        }

        private Budget budget(Strategy strategy) {
            return new Budget(batchTokens, sequences + (strategy == Strategy.GPU_ONLY ? 0 : hostSequences), batchTokens);
        }

        private SimulatedRun run(Strategy strategy, Workload work, boolean guarded, double slower) {
            boolean hybrid = strategy != Strategy.GPU_ONLY;
            CostModel cost = new CostModel(profile);
            int riding = RidingRows.of(cost::linear, Integer.MAX_VALUE);
            ExecutorLimits limits = new ExecutorLimits(
                    32_000, 131_072, 16, 64, gpuBlocks, hostBlocks(strategy), batchTokens, profile.layers(), tokenBytes, hybrid, hybrid ? 64 : 0,
                    hybrid ? 1024 : 0, false, riding);
            Budget budget = budget(strategy);
            TierRules rules = new TierRules(LatencyTargets.NONE, 256, 0);
            Policy policy = strategy.policy(
                    new Strategy.Options(budget, Preemption.RECOMPUTE, rules, true, false, 0, false, 8, Strategy.InFlight.of(limits), riding), cost);
            StepPredictor predictor = new StepPredictor(cost, true, tokenBytes);
            GpuOnly gpuOnly = new GpuOnly(budget, Preemption.RECOMPUTE, 8, riding);
            Policy decider = guarded ? new Guard(policy, strategy, gpuOnly, predictor, Guard.Limits.DEFAULT) : policy;
            PolicyScheduler scheduler =
                    new PolicyScheduler(decider, predictor::of, new Calibrator(cost, tokenBytes), new DecisionLog(1));
            VirtualClock clock = new VirtualClock();
            SimulatedExecutor executor = new SimulatedExecutor(limits, new CostModel(slower == 1 ? profile : withHostLoad(slower * profile.hostLoad())), clock);
            EngineConfig config = new EngineConfig(budget, Set.of(), 16 * gpuBlocks, Integer.MAX_VALUE, 0);
            return new SimulatedRun(config, scheduler, executor, clock, work);
        }
    }

    @ParameterizedTest
    @CsvSource({
        "T4_CLASS, osc, ASYNC_OVERLAP, false, 3.0",
        "T4_CLASS, osc, NEO, false, 3.2",
        "T4_CLASS, osc, APEX, false, 3.0",
        "A10G_CLASS, synthetic:1000/400, ASYNC_OVERLAP, false, 1.2",
        "A10G_CLASS, synthetic:1000/400, NEO, false, 1.05",
        "A10G_CLASS, synthetic:1000/400, APEX, false, 1.15",
        "H200_TIGHT, synthetic:1000/200, ASYNC_OVERLAP, false, 1.05",
        "H200_TIGHT, synthetic:1000/400, ASYNC_OVERLAP, false, 1.1",
        "H200_TIGHT, synthetic:1000/200, NEO, false, 0.85",
        "H200_TIGHT_LIBRARY, synthetic:1000/200, NEO, false, 0.9",
        "T4_CLASS, osc, ASYNC_OVERLAP, true, 3.0",
        "T4_TIGHT, osc, ASYNC_OVERLAP, true, 2.0",
        "T4_TIGHT, osc, APEX, true, 2.0",
        "T4_TIGHT, osc, NEO, true, 1.5",
        "T4_TIGHT_FASTER_HOST, osc, NEO, true, 1.6",
        "A10G_CLASS, synthetic:1000/400, APEX, true, 1.1",
        "A10G_CLASS, synthetic:1000/200, ASYNC_OVERLAP, true, 0.99",
        "A10G_CLASS, synthetic:1000/200, NEO, true, 1.08",
        "A10G_CLASS, osc, ASYNC_OVERLAP, true, 0.97",
        "H200_TIGHT, synthetic:1000/200, ASYNC_OVERLAP, true, 1.08",
        "H200_TIGHT, synthetic:1000/200, NEO, true, 0.99",
        "H200_TIGHT, osc, ASYNC_OVERLAP, true, 0.97",
    })
    void offloadingPaysWhereItShould(String machine, String workload, Strategy strategy, boolean guarded, double least) {
        double alone = ALONE.computeIfAbsent(machine + workload, key -> Machine.valueOf(machine).rate(Strategy.GPU_ONLY, workload, false));
        double both = Machine.valueOf(machine).rate(strategy, workload, guarded);
        assertThat(both / alone).as("%s, %s, %s to gpu-only, guarded: %s", machine, workload, strategy.flag(), guarded).isGreaterThan(least);
    }

    /** The guard notices, whatever was promised: what its attempts cost in so many seconds is all that is lost. */
    @ParameterizedTest
    @CsvSource({
        "H200_TIGHT, azure-code, 2000, 0.985",
        "H200_TIGHT, synthetic:1000/200, 1000, 0.985",
        "H200_TIGHT, osc, 1000, 0.985",
        "A10G_CLASS, synthetic:1000/200, 5000, 0.985",
    })
    void onAMachineThatIsAFifthSlowerTheGuardKeepsGpuOnlysPace(String machine, String workload, int seconds, double least) {
        double alone = Machine.valueOf(machine).rate(Strategy.GPU_ONLY, workload, false, 1, seconds);
        double both = Machine.valueOf(machine).rate(Strategy.ASYNC_OVERLAP, workload, true, 1.2, seconds);
        assertThat(both / alone).as("%s, %s", machine, workload).isGreaterThan(least);
    }

    /** A burst, with the time in which the last requests are the host's alone. */
    @ParameterizedTest
    @CsvSource({"ASYNC_OVERLAP, 1.4", "NEO, 2.5", "APEX, 2.1"})
    void offloadingPaysForABurst(Strategy strategy, double least) {
        double alone = Machine.T4_CLASS.wholeRate(Strategy.GPU_ONLY, "osc", 100);
        assertThat(Machine.T4_CLASS.wholeRate(strategy, "osc", 100) / alone).isGreaterThan(least);
    }

    @ParameterizedTest
    @EnumSource(value = Strategy.class, names = {"SIMPLE_OFFLOAD", "SYMMETRIC", "FASTDECODE_PLUS", "ASYMMETRIC"})
    void everyStrategyGetsAnywhere(Strategy strategy) {
        Map<Machine, Double> rates = new EnumMap<>(Machine.class);
        for (Machine machine : Machine.values()) {
            rates.put(machine, machine.rate(strategy, "synthetic:400/100", false));
        }
        assertThat(rates.values()).as("%s: %s", strategy.flag(), rates).allSatisfy(rate -> assertThat(rate).isGreaterThan(10));
    }
}
