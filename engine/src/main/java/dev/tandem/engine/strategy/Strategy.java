package dev.tandem.engine.strategy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.paper.Apex;
import dev.tandem.engine.strategy.paper.Neo;
import dev.tandem.engine.strategy.paper.SimpleOffload;
import dev.tandem.engine.strategy.paper.Symmetric;
import java.util.Arrays;
import java.util.stream.Collectors;

/** What {@code --strategy} selects. */
public enum Strategy {
    GPU_ONLY("gpu-only", false),
    SIMPLE_OFFLOAD("simple-offload", true),
    SYMMETRIC("symmetric", true),
    FASTDECODE_PLUS("fastdecode-plus", true),
    ASYMMETRIC("asymmetric", false),
    ASYNC_OVERLAP("async-overlap", false),
    NEO("neo", false),
    APEX("apex", false);

    private final String flag;
    private final boolean allHost;

    Strategy(String flag, boolean allHost) {
        this.flag = flag;
        this.allHost = allHost;
    }

    public String flag() {
        return flag;
    }

    /** Whether every sequence decodes on the host, so that each must fit there. */
    public boolean allHost() {
        return allHost;
    }

    /** @throws ConfigurationException that lists the strategies */
    public static Strategy of(String flag) {
        return Arrays.stream(values())
                .filter(strategy -> strategy.flag.equals(flag))
                .findFirst()
                .orElseThrow(() -> new ConfigurationException("--strategy " + flag + " is not known; known are "
                        + Arrays.stream(values()).map(Strategy::flag).collect(Collectors.joining(", "))));
    }

    /**
     * What an executor takes of in-flight tokens.
     *
     * @param slotsPerLayer most that a layer picks up in a step, and most that enter in a step
     * @param max that may be in flight at a time
     * @param finish whether a step can take in-flight tokens through all layers that they have left
     */
    public record InFlight(int slotsPerLayer, int max, boolean finish) {
        public static final InFlight UNLIMITED = new InFlight(Integer.MAX_VALUE, Integer.MAX_VALUE, true);

        public static InFlight of(ExecutorLimits limits) {
            return new InFlight(limits.slotsPerLayer(), limits.maxInFlight(), limits.completesWithinStep());
        }
    }

    /**
     * The options that the papers leave open.
     *
     * @param chunkedPrefill whether {@code neo}, {@code apex} and {@code async-overlap} cut prompts; the papers do not
     * @param hidesAll whether all CPU rows of two sub-batches hide behind the GPU's work, as in NEO
     * @param apexMinCpuRatio CPU requests for each GPU request below which {@code apex} leaves the CPU alone (§4.2: 8)
     * @param inFlight limits of the executor
     * @param piggybackedTokens of the executor, 0 to compute prompts at once
     * @param apexCohort whether {@code apex} moves its host tokens through the layers together, as in the paper
     */
    public record Options(
            Budget budget,
            Preemption preemption,
            TierRules rules,
            boolean chunkedPrefill,
            boolean hidesAll,
            double apexMinCpuRatio,
            boolean apexCohort,
            int queueBypasses,
            InFlight inFlight,
            int piggybackedTokens) {
        /** As in the papers. */
        public static Options of(Budget budget) {
            return new Options(
                    budget, Preemption.SWAP, TierRules.neutral(), false, true, 0, true, 0, InFlight.UNLIMITED, 0);
        }

        public Options {
            if (!(apexMinCpuRatio >= 0)) {
                throw new ConfigurationException("--apex-min-cpu-ratio " + apexMinCpuRatio + " must be 0 or more");
            }
        }
    }

    /**
     * Checks that every sequence up to {@code contextTokens} fits where the strategy wants it.
     *
     * @throws ConfigurationException that names the pool and the remedy
     */
    public void check(ExecutorLimits limits, int contextTokens) {
        int needed = (contextTokens + limits.hostBlockTokens() - 1) / limits.hostBlockTokens();
        if (allHost && needed > limits.hostBlocks()) {
            throw new ConfigurationException("--strategy " + flag + " keeps all KV on the host: a sequence of "
                    + contextTokens
                    + " tokens needs " + needed + " blocks there and the host pool has " + limits.hostBlocks()
                    + "; raise --host-kv or lower --max-model-len");
        }
        if (this != GPU_ONLY && limits.hostBlocks() == 0) {
            throw new ConfigurationException(
                    "--strategy " + flag + " needs host KV and the host pool has no block; raise --host-kv");
        }
    }

    /** @param cost of this machine; may be null where the strategy does not predict */
    public Policy policy(Options options, CostModel cost) {
        return policy(options, cost, Contest.Limits.DEFAULT);
    }

    /** @param contest when apex's rules and async overlap are measured against each other */
    Policy policy(Options options, CostModel cost, Contest.Limits contest) {
        Budget budget = options.budget();
        GpuOnly gpuOnly = new GpuOnly(budget, options.preemption());
        return switch (this) {
            case GPU_ONLY ->
                new GpuOnly(budget, options.preemption(), options.queueBypasses(), options.piggybackedTokens());
            case SIMPLE_OFFLOAD -> new SimpleOffload(budget);
            case SYMMETRIC -> new Symmetric(budget);
            case FASTDECODE_PLUS -> new Asymmetric(flag, pipeline(options, cost, false));
            case ASYMMETRIC -> new Asymmetric(flag, pipeline(options, cost, true));
            case ASYNC_OVERLAP -> async(options, cost, false);
            case NEO -> neo(options, cost);
            case APEX -> apex(options, cost, gpuOnly, contest);
        };
    }

    /** What follows a strategy that is given up, until the host is empty. */
    public static Policy drain(Options options, CostModel cost) {
        AsyncOverlap overlap = new AsyncOverlap(
                options.budget(),
                paper(cost),
                TierRules.neutral(),
                true,
                false,
                options.inFlight(),
                options.piggybackedTokens());
        return new HostDrain(options.budget(), overlap, options.queueBypasses(), options.piggybackedTokens());
    }

    /**
     * As in the paper where its host tokens move together; else its rules must prove themselves against async overlap
     * alone.
     */
    private static Policy apex(Options options, CostModel cost, GpuOnly gpuOnly, Contest.Limits contest) {
        AsyncOverlap async = async(options, cost, options.apexCohort());
        Policy rules = new Apex(
                options.budget(),
                paper(cost),
                pipeline(options, cost, true),
                async,
                gpuOnly,
                options.apexMinCpuRatio(),
                options.inFlight().finish());
        if (options.apexCohort()) {
            return rules;
        }
        Policy lingering = new Lingering(rules, neo(options, cost));
        return new Contest(lingering, async, async::draining, paper(cost), contest);
    }

    private static Neo neo(Options options, CostModel cost) {
        return new Neo(pipeline(options, cost, true), paper(cost));
    }

    /** The papers' predictor: tiers overlap, swaps are free. */
    private static StepPredictor paper(CostModel cost) {
        return new StepPredictor(cost, true, 0);
    }

    private static Pipeline pipeline(Options options, CostModel cost, boolean gpuKv) {
        return new Pipeline(
                options.budget(),
                paper(cost),
                options.rules(),
                options.chunkedPrefill(),
                options.hidesAll() || !gpuKv,
                gpuKv);
    }

    private static AsyncOverlap async(Options options, CostModel cost, boolean cohort) {
        return new AsyncOverlap(
                options.budget(),
                paper(cost),
                options.rules(),
                options.chunkedPrefill(),
                cohort,
                options.inFlight(),
                cohort ? 0 : options.piggybackedTokens());
    }
}
