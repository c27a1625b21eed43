package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;

/** Pools and limits of the presets of {@code bench}. */
enum SimulatedMachine {
    H200_8SM_2REQ("h200-8sm-2req", 54, 60, 524_288, 832, 64, 256, 100),
    H200_2REQ("h200-2req", 54, 44, 524_288, 832, 64, 256, 100),
    /** Its host reads KV at 136 GB/s, the other at 122. */
    T4_TIGHT_FASTER_HOST("h200-2req-faster-host", 54, 44, 524_288, 832, 64, 256, 100),
    /** Prompts come in waves of minutes. */
    H200_16SM_26K("h200-16sm-26k", 1650, 72, 131_072, 20_480, 256, 512, 1000),
    /** 32 steps of it take 0.9 to 1.0 of the default target per token (ADR 148). */
    H100_26K("h100-26k", 1650, 36, 131_072, 20_480, 256, 256, 100),
    H200_26K("h200", 1650, 36, 131_072, 20_480, 256, 256, 100),
    /** The same when cublasLt computed the products of steps in which prompts ride, and riding gained gpu-only less. */
    H200_TIGHT_LIBRARY("h200-library", 1650, 36, 131_072, 20_480, 256, 256, 100),
    IMITATED_L4("h200-imitated-l4-cb448a0", 2622, 24, 131_072, 2048, 64, 256, 100);

    /** What may keep requests off the host tier. */
    enum Host {
        USABLE,
        /** A pool of two blocks, 128 tokens, in which few requests fit. */
        TINY_POOL,
        /** A target of 20 ms per token on every request, less than any host tier reaches. */
        STRICT_TARGET,
        /** Every token whose attention the CPU computes is lost. */
        LOST
    }

    private static final long GIB = 1L << 30;
    static final int WARM_UP_SECONDS = 100;
    /** Long enough for the guard to have measured. */
    static final int GUARDED_WARM_UP_SECONDS = 200;

    private static final int EARLY_SECONDS = 20;
    private static final long STRICT_NANOS = 20_000_000;

    final Profile profile;
    final int gpuBlocks;
    final long hostBytes;
    final long tokenBytes;
    final int batchTokens;
    final int sequences;
    final int hostSequences;
    final int seconds;

    SimulatedMachine(
            String profile,
            int gpuBlocks,
            int hostGib,
            long tokenBytes,
            int batchTokens,
            int sequences,
            int hostSequences,
            int seconds) {
        try {
            Path file = Path.of("../docs/results/profiles", profile + ".txt");
            this.profile = Profile.parse(Files.readString(file), file.toString());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        this.gpuBlocks = gpuBlocks;
        this.hostBytes = hostGib * GIB;
        this.tokenBytes = tokenBytes;
        this.batchTokens = batchTokens;
        this.sequences = sequences;
        this.hostSequences = hostSequences;
        this.seconds = seconds;
    }

    /** Output tokens a second in a steady window. */
    double rate(Strategy strategy, String workload, boolean guarded, int warmUpSeconds) {
        return rate(strategy, workload, guarded, 1, warmUpSeconds, seconds);
    }

    /** @param slower steps with in-flight tokens take so many times as long as anybody predicts */
    double rate(Strategy strategy, String workload, boolean guarded, double slower, int seconds) {
        return rate(strategy, workload, guarded, slower, GUARDED_WARM_UP_SECONDS, seconds);
    }

    /** Output tokens per second soon after the start: enough to see that requests get on. */
    double earlyRate(Strategy strategy, String workload) {
        return rate(strategy, workload, false, 1, EARLY_SECONDS, EARLY_SECONDS);
    }

    private double rate(
            Strategy strategy, String workload, boolean guarded, double slower, int warmUpSeconds, int seconds) {
        Workload work = Workload.parse(workload, 0);
        SimulatedRun run = run(strategy, work, guarded, slower, Host.USABLE);
        Map<String, Object> result = run.steady(first(strategy, work, Host.USABLE), warmUpSeconds, seconds);
        assertThat(result.get("failed")).isEqualTo(0);
        return rate(result);
    }

    /** Output tokens per second of a guarded strategy in a steady window, with a host tier that may not be used. */
    double guardedRate(Strategy strategy, String workload, Host host, int seconds) {
        Workload work = Workload.parse(workload, 0);
        SimulatedRun run = run(strategy, work, true, 1, host);
        return rate(run.steady(first(strategy, work, host), GUARDED_WARM_UP_SECONDS, seconds));
    }

    /** Output tokens per second in a steady window on a machine that differs from the profile. */
    double rateWithErrors(
            Strategy strategy, String workload, boolean guarded, TimingErrors errors, int warmUpSeconds, int seconds) {
        Workload work = Workload.parse(workload, 0);
        SimulatedRun run = withErrors(strategy, work, guarded, new LatencyTargets(0, 0), errors);
        return rate(run.steady(first(strategy, work, Host.USABLE), warmUpSeconds, seconds));
    }

    /** A run on a machine that differs from the profile. */
    SimulatedRun withErrors(
            Strategy strategy, Workload work, boolean guarded, LatencyTargets targets, TimingErrors errors) {
        Simulation parts = simulation(strategy, guarded, 1, Host.USABLE, targets);
        SimulatedExecutor executor =
                SimulatedExecutor.withErrors(parts.executor().limits(), profile, parts.clock(), errors);
        return new SimulatedRun(parts.config(), parts.scheduler(), executor, parts.clock(), work);
    }

    /** Output tokens a second until the last of some requests has ended. */
    double wholeRate(Strategy strategy, String workload, int requests) {
        Map<String, Object> result = run(strategy, Workload.parse(workload, 0), false, 1, Host.USABLE)
                .whole(requests);
        assertThat(result.get("failed")).isEqualTo(0);
        return rate(result);
    }

    private Profile withHostLoad(double load) {
        String text = profile.format().replaceFirst("host-load .*", "host-load " + load);
        return Profile.parse(text, profile.name());
    }

    private static double rate(Map<String, Object> result) {
        return ((Number) result.get("output_tokens_per_second")).doubleValue();
    }

    private int hostBlocks(Strategy strategy, Host host) {
        if (strategy == Strategy.GPU_ONLY) {
            return 0;
        }
        return host == Host.TINY_POOL ? 2 : (int) (hostBytes / (64 * tokenBytes));
    }

    /** Requests that keep both pools full. */
    private FirstRequests first(Strategy strategy, Workload work, Host host) {
        double held = (16.0 * gpuBlocks + 64.0 * hostBlocks(strategy, host)) / work.meanTokensHeld();
        return FirstRequests.allInProgress((int) Math.min(budget(strategy).maxSequences(), Math.ceil(held) + 2));
    }

    private Budget budget(Strategy strategy) {
        return new Budget(batchTokens, sequences + (strategy == Strategy.GPU_ONLY ? 0 : hostSequences), batchTokens);
    }

    /** What a simulated engine is made of. */
    record Simulation(EngineConfig config, Scheduler scheduler, SimulatedExecutor executor, VirtualClock clock) {}

    private SimulatedRun run(Strategy strategy, Workload work, boolean guarded, double slower, Host host) {
        LatencyTargets targets = new LatencyTargets(0, host == Host.STRICT_TARGET ? STRICT_NANOS : 0);
        Simulation parts = simulation(strategy, guarded, slower, host, targets);
        return new SimulatedRun(parts.config(), parts.scheduler(), parts.executor(), parts.clock(), work);
    }

    Simulation simulation(Strategy strategy, boolean guarded, double slower, Host host, LatencyTargets targets) {
        boolean hybrid = strategy != Strategy.GPU_ONLY;
        CostModel cost = new CostModel(profile);
        PiggybackedPrefill piggybacking = cost.piggybacking();
        ExecutorLimits limits = ExecutorLimits.builder()
                .vocabulary(32_000)
                .contextTokens(131_072)
                .blockTokens(16)
                .hostBlockTokens(64)
                .gpuBlocks(gpuBlocks)
                .stagesPrefills(hybrid)
                .hostBlocks(hostBlocks(strategy, host))
                .maxBatchTokens(batchTokens)
                .layers(profile.layers())
                .kvBytesPerToken(tokenBytes)
                .overlaps(hybrid)
                .inFlight(hybrid ? 64 : 0, hybrid ? 1024 : 0, false)
                .piggybacking(piggybacking)
                .build();
        Budget budget = budget(strategy);
        TierRules rules = new TierRules(targets, 256, 0);
        var options = Strategy.Options.builder(budget)
                .preemption(Preemption.RECOMPUTE)
                .rules(rules)
                .queueBypasses(8)
                .inFlight(InFlightLimits.of(limits))
                .piggybacking(piggybacking)
                .build();
        Scheduler scheduler = SimulatedEngine.scheduler(strategy, guarded, options, profile, limits);
        VirtualClock clock = new VirtualClock();
        CostModel machine = new CostModel(slower == 1 ? profile : withHostLoad(slower * profile.hostLoad()));
        SimulatedExecutor executor = new SimulatedExecutor(limits, machine, clock);
        if (host == Host.LOST) {
            executor.loseHostAt(0);
        }
        EngineConfig config = new EngineConfig(budget, Set.of(), 16 * gpuBlocks, Integer.MAX_VALUE, 0);
        return new Simulation(config, scheduler, executor, clock);
    }
}
