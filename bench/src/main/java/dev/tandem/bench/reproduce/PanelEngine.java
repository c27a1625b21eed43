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
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.InFlightLimits;
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
    private static final int HOST_BLOCK_TOKENS = 64;
    /** Slots per layer and in-flight tokens of the CUDA executor, for host tokens that are spread over the layers. */
    private static final int SPREAD_SLOTS = 64;

    private static final int SPREAD_TOKENS = 1024;
    /** As the default of {@code --max-queue-bypass}; only Tandem's own strategies read it. */
    private static final int QUEUE_BYPASSES = 8;

    /**
     * An engine on a machine that also pays what the fidelity's strategies assume for each stage of a layer: NEO's
     * artifact launches kernels from Python, which cannot overlap with the CPU's attention (NEO section 4).
     */
    static PanelEngine of(Panel panel, ComparedSystem system, Fidelity fidelity, Profile profile, ModelShape model) {
        double launches =
                deviations(system, fidelity).number(Deviation.STAGE_OVERHEAD).orElse(0) / 1e3;
        return new PanelEngine(
                panel, system, fidelity, launches > 0 ? profile.withStageOverhead(launches) : profile, model);
    }

    /** The strategy that runs: the paper's own, or what Tandem made of it. */
    static Strategy strategy(ComparedSystem system, Fidelity fidelity) {
        Strategy strategy = Strategy.of(system.strategy());
        return fidelity == Fidelity.TANDEM ? strategy.improved() : strategy;
    }

    /** The system's name in reports: an improved strategy never has a paper's name. */
    static String name(ComparedSystem system, Fidelity fidelity) {
        Strategy strategy = strategy(system, fidelity);
        return strategy == Strategy.of(system.strategy()) ? system.name() : strategy.flag();
    }

    /** Rules of the fidelity; a paper's strategy of which Tandem made nothing else keeps the printed ones. */
    static Deviations deviations(ComparedSystem system, Fidelity fidelity) {
        boolean papersOwn = strategy(system, fidelity).fidelity() == Fidelity.PRINTED;
        return Deviations.of(papersOwn && fidelity == Fidelity.TANDEM ? Fidelity.PRINTED : fidelity);
    }

    /** What happens to the KV of preempted sequences: without a host tier there is no place for it. */
    static Preemption preemption(Strategy strategy) {
        return strategy.offloads() ? Preemption.SWAP : Preemption.RECOMPUTE;
    }

    /** An engine whose requests draw from a seed. */
    SimulatedEngine engine(long seed) {
        Strategy strategy = strategy(system, fidelity);
        ExecutorLimits limits = limits(strategy.offloads());
        Setting setting = panel.setting();
        Budget budget = new Budget(setting.maxBatchTokens(), setting.maxRequests(), setting.maxBatchTokens());
        Strategy.Options options = Strategy.Options.builder(budget)
                .preemption(preemption(strategy))
                .deviations(deviations(system, fidelity))
                .queueBypasses(QUEUE_BYPASSES)
                .inFlight(InFlightLimits.of(limits))
                .piggybacking(limits.piggybacking())
                .build();
        int context = Math.min(setting.maxBatchTokens(), limits.gpuBlocks() * Setting.BLOCK_TOKENS);
        EngineConfig config = new EngineConfig(budget, Set.of(), context, Integer.MAX_VALUE, seed);
        strategy.check(limits, context);
        return SimulatedEngine.of(profile, limits, config, strategy, false, options);
    }

    /**
     * The executor's limits. All systems of a panel have the same bytes of GPU memory for KV. Under the papers'
     * fidelities, a hybrid keeps the KV of one layer of its blocks for the layer-wise offload, as NEO's artifact does,
     * and so has L/(L + 1) of the blocks. Under Tandem's it has all of them, and a step borrows free ones. The papers
     * limit neither the host tokens per layer nor those in flight, and let them finish within a step.
     */
    ExecutorLimits limits(boolean hybrid) {
        Setting setting = panel.setting();
        int layers = model.layers();
        long tokenBytes = (long) model.kvBytesPerToken();
        int hostBlocks = hybrid ? (int) (setting.hostBytes() / (tokenBytes * HOST_BLOCK_TOKENS)) : 0;
        boolean borrows = hybrid && fidelity == Fidelity.TANDEM;
        boolean spread = deviations(system, fidelity).has(Deviation.SPREAD_HOST_TOKENS);
        return ExecutorLimits.builder()
                .vocabulary(model.vocabulary())
                .contextTokens(setting.maxBatchTokens())
                .blockTokens(Setting.BLOCK_TOKENS)
                .hostBlockTokens(HOST_BLOCK_TOKENS)
                .gpuBlocks(hybrid && !borrows ? setting.gpuBlocks() * layers / (layers + 1) : setting.gpuBlocks())
                .stagesPrefills(borrows)
                .hostBlocks(hostBlocks)
                .maxBatchTokens(setting.maxBatchTokens())
                .layers(layers)
                .kvBytesPerToken(tokenBytes)
                .overlaps(hybrid)
                .inFlight(
                        hybrid && spread ? SPREAD_SLOTS : hostBlocks,
                        hybrid && spread ? SPREAD_TOKENS : hostBlocks,
                        hybrid)
                .piggybacking(new CostModel(profile).piggybacking())
                .build();
    }
}
