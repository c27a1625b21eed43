package dev.tandem.bench.reproduce;

import dev.tandem.bench.SimulatedEngine;
import dev.tandem.bench.hardware.ModelShape;
import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.bench.reproduce.Panel.Setting;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.PiggybackedPrefill;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.Set;

/**
 * A simulated engine with the limits of a panel.
 *
 * @param panel names the limits
 * @param system names the strategy
 * @param fidelity how close the strategy stays to its paper
 * @param profile of the machine and the model
 * @param model of the panel
 */
record PanelEngine(Panel panel, ComparedSystem system, Fidelity fidelity, Profile profile, ModelShape model) {
    private static final int BLOCK_TOKENS = 16;
    private static final int HOST_BLOCK_TOKENS = 64;

    /** Whether the system computes attention on the host. */
    static boolean isHybrid(ComparedSystem system) {
        return switch (strategy(system)) {
            case GPU_ONLY -> false;
            case SIMPLE_OFFLOAD, SYMMETRIC, FASTDECODE_PLUS, ASYMMETRIC, ASYNC_OVERLAP, NEO, APEX -> true;
        };
    }

    private static Strategy strategy(ComparedSystem system) {
        return Strategy.of(system.strategy().replace("swiftllm", "gpu-only"));
    }

    /** An engine whose requests draw from a seed. */
    SimulatedEngine engine(long seed) {
        Strategy strategy = strategy(system);
        ExecutorLimits limits = limits();
        Setting setting = panel.setting();
        Budget budget = new Budget(setting.maxBatchTokens(), setting.maxRequests(), setting.maxBatchTokens());
        Strategy.Options options = Strategy.Options.builder(budget)
                .preemption(isHybrid(system) ? Preemption.SWAP : Preemption.RECOMPUTE)
                .inFlight(InFlightLimits.of(limits))
                .piggybackedTokens(limits.piggybackedTokens())
                .build();
        int context = Math.min(setting.maxBatchTokens(), limits.gpuBlocks() * BLOCK_TOKENS);
        EngineConfig config = new EngineConfig(budget, Set.of(), context, Integer.MAX_VALUE, seed);
        strategy.check(limits, context);
        return SimulatedEngine.of(profile, limits, config, strategy, false, options);
    }

    /**
     * The executor's limits. All systems of a panel have the same bytes of GPU memory for KV: a hybrid keeps the KV of
     * one layer of its blocks for the layer-wise offload, as NEO's artifact does, and so has L/(L + 1) of the blocks.
     */
    private ExecutorLimits limits() {
        Setting setting = panel.setting();
        boolean hybrid = isHybrid(system);
        int layers = model.layers();
        long tokenBytes = (long) model.kvBytesPerToken();
        return ExecutorLimits.builder()
                .vocabulary(model.vocabulary())
                .contextTokens(setting.maxBatchTokens())
                .blockTokens(BLOCK_TOKENS)
                .hostBlockTokens(HOST_BLOCK_TOKENS)
                .gpuBlocks(hybrid ? setting.gpuBlocks() * layers / (layers + 1) : setting.gpuBlocks())
                .hostBlocks(hybrid ? (int) (setting.hostBytes() / (tokenBytes * HOST_BLOCK_TOKENS)) : 0)
                .maxBatchTokens(setting.maxBatchTokens())
                .layers(layers)
                .kvBytesPerToken(tokenBytes)
                .overlaps(hybrid)
                .inFlight(hybrid ? setting.maxRequests() : 0, hybrid ? setting.maxRequests() : 0, false)
                .piggybackedTokens(PiggybackedPrefill.of(new CostModel(profile)::linear, Integer.MAX_VALUE))
                .build();
    }
}
