package dev.tandem.engine.strategy.select;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.Asymmetric;
import dev.tandem.engine.strategy.AsyncOverlap;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.HostDrain;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.Pipeline;
import dev.tandem.engine.strategy.SpeedupEstimate.Kind;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.paper.Apex;
import dev.tandem.engine.strategy.paper.Neo;
import dev.tandem.engine.strategy.paper.SimpleOffload;
import dev.tandem.engine.strategy.paper.Symmetric;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/** The strategies of {@code --strategy}. */
public enum Strategy {
    /** The GPU holds all KV of running sequences and computes all attention: {@link GpuOnly}. */
    GPU_ONLY("gpu-only", false, Set.of()),
    /** The CPU computes all decode attention while the GPU waits: {@link SimpleOffload}. */
    SIMPLE_OFFLOAD("simple-offload", true, Set.of(Kind.TWO_SUB_BATCHES)),
    /** The CPU computes all decode attention, in two even sub-batches: {@link Symmetric}. */
    SYMMETRIC("symmetric", true, Set.of(Kind.TWO_SUB_BATCHES)),
    /** Two sub-batches by the rules of NEO, with all KV on the host: {@link Asymmetric}. */
    FASTDECODE_PLUS("fastdecode-plus", true, Set.of(Kind.TWO_SUB_BATCHES)),
    /** Two sub-batches in every step, with KV on both tiers: {@link Asymmetric}. */
    ASYMMETRIC("asymmetric", false, Set.of(Kind.TWO_SUB_BATCHES_WITH_PROMPTS)),
    /** One batch with in-flight tokens, for which the GPU never waits: {@link AsyncOverlap}. */
    ASYNC_OVERLAP("async-overlap", false, Set.of(Kind.IN_FLIGHT)),
    /** Two sub-batches or gpu-only, whichever is predicted to be faster: {@link Neo}. */
    NEO("neo", false, Set.of(Kind.TWO_SUB_BATCHES_WITH_PROMPTS)),
    /** Two sub-batches, async overlap or gpu-only, by the rules of APEX: {@link Apex}. */
    APEX("apex", false, Set.of(Kind.IN_FLIGHT, Kind.TWO_SUB_BATCHES_WITH_PROMPTS));

    private final String flag;
    private final boolean allHost;
    private final Set<Kind> kinds;

    Strategy(String flag, boolean allHost, Set<Kind> kinds) {
        this.flag = flag;
        this.allHost = allHost;
        this.kinds = kinds;
    }

    /** The strategy's name on the command line, in logs and in results. */
    public String flag() {
        return flag;
    }

    /** Whether every sequence decodes on the host, so that every sequence must fit there. */
    public boolean allHost() {
        return allHost;
    }

    /**
     * Finds a strategy by its name.
     *
     * @throws ConfigurationException that lists the strategies
     */
    public static Strategy of(String flag) {
        return Arrays.stream(values())
                .filter(strategy -> strategy.flag.equals(flag))
                .findFirst()
                .orElseThrow(() -> new ConfigurationException("--strategy " + flag + " is not known; known are "
                        + Arrays.stream(values()).map(Strategy::flag).collect(Collectors.joining(", "))));
    }

    /**
     * The options of a strategy. The values that {@link #builder} begins with are those of the papers.
     *
     * @param budget of a step
     * @param preemption what happens to the KV of a preempted sequence
     * @param rules which sequences may be on the host, and for how long
     * @param chunkedPrefill whether {@code neo}, {@code apex} and {@code async-overlap} compute prompts in chunks; the
     *     papers do not
     * @param hidesAll whether the CPU's attention of every token in two sub-batches hides behind the GPU's work, as in
     *     NEO
     * @param apexMinCpuRatio min CPU requests per GPU request for which {@code apex} uses the CPU (§4.2: 8)
     * @param apexCohort whether {@code apex} moves its host tokens through the layers together, as in the paper
     * @param queueBypasses max number of later requests that start before one that does not fit
     * @param inFlight limits of the executor for in-flight tokens
     * @param piggybackedTokens rows of a step up to which prompt tokens cost little; 0 to compute prompts at once
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
            InFlightLimits inFlight,
            int piggybackedTokens) {
        /** The options of the papers. */
        public static Options of(Budget budget) {
            return builder(budget).build();
        }

        /** Returns a builder that begins with the options of the papers. */
        public static Builder builder(Budget budget) {
            return new Builder(budget);
        }

        public Options {
            if (!(apexMinCpuRatio >= 0)) {
                throw new ConfigurationException(
                        "--apex-min-cpu-ratio " + apexMinCpuRatio + " is not a number of 0 or more");
            }
        }

        /** Builds {@link Options}; an option that is not set is that of the papers. */
        public static final class Builder {
            private final Budget budget;
            private Preemption preemption = Preemption.SWAP;
            private TierRules rules = TierRules.neutral();
            private boolean chunkedPrefill;
            private boolean hidesAll = true;
            private double apexMinCpuRatio;
            private boolean apexCohort = true;
            private int queueBypasses;
            private InFlightLimits inFlight = InFlightLimits.UNLIMITED;
            private int piggybackedTokens;

            private Builder(Budget budget) {
                this.budget = budget;
            }

            /** Sets what happens to the KV of a preempted sequence. */
            public Builder preemption(Preemption value) {
                preemption = value;
                return this;
            }

            /** Sets which sequences may be on the host, and for how long. */
            public Builder rules(TierRules value) {
                rules = value;
                return this;
            }

            /** Sets whether prompts may be computed in chunks. */
            public Builder chunkedPrefill(boolean value) {
                chunkedPrefill = value;
                return this;
            }

            /** Sets whether the CPU's attention of every token in two sub-batches hides behind the GPU's work. */
            public Builder hidesAll(boolean value) {
                hidesAll = value;
                return this;
            }

            /** Sets the min CPU requests per GPU request for which {@code apex} uses the CPU. */
            public Builder apexMinCpuRatio(double value) {
                apexMinCpuRatio = value;
                return this;
            }

            /** Sets whether {@code apex} moves its host tokens through the layers together. */
            public Builder apexCohort(boolean value) {
                apexCohort = value;
                return this;
            }

            /** Sets the max number of later requests that start before one that does not fit. */
            public Builder queueBypasses(int value) {
                queueBypasses = value;
                return this;
            }

            /** Sets the limits of the executor for in-flight tokens. */
            public Builder inFlight(InFlightLimits value) {
                inFlight = value;
                return this;
            }

            /** Sets the rows of a step up to which prompt tokens cost little; 0 to compute prompts at once. */
            public Builder piggybackedTokens(int value) {
                piggybackedTokens = value;
                return this;
            }

            /**
             * Builds the options.
             *
             * @throws ConfigurationException that names the option and its limit
             */
            public Options build() {
                return new Options(
                        budget,
                        preemption,
                        rules,
                        chunkedPrefill,
                        hidesAll,
                        apexMinCpuRatio,
                        apexCohort,
                        queueBypasses,
                        inFlight,
                        piggybackedTokens);
            }
        }
    }

    /**
     * Checks that a sequence of {@code contextTokens} fits the tier on which the strategy keeps its KV.
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
            throw new ConfigurationException("--strategy " + flag + " needs host KV and the host pool has no block;"
                    + " raise --host-kv or use --strategy gpu-only");
        }
    }

    /**
     * Creates the strategy's policy without the guard.
     *
     * @param options of the strategy
     * @param cost model of this machine
     */
    public Policy policy(Options options, CostModel cost) {
        return policy(options, cost, SelectorLimits.DEFAULT);
    }

    Policy policy(Options options, CostModel cost, SelectorLimits limits) {
        Budget budget = options.budget();
        return switch (this) {
            case GPU_ONLY -> gpuOnly(options);
            case SIMPLE_OFFLOAD -> new SimpleOffload(budget);
            case SYMMETRIC -> new Symmetric(budget);
            case FASTDECODE_PLUS -> new Asymmetric(flag, pipeline(options, cost, false));
            case ASYMMETRIC -> new Asymmetric(flag, pipeline(options, cost, true));
            case ASYNC_OVERLAP -> asyncOverlap(options, cost, false);
            case NEO -> neo(options, cost);
            case APEX ->
                options.apexCohort()
                        ? apex(options, cost, asyncOverlap(options, cost, true))
                        : selector(options, paper(cost), arms(options, cost), Optional.empty(), limits);
        };
    }

    /**
     * Creates the strategy's policy with the guard: a selector in which gpu-only is an arm as well.
     *
     * @param options of the strategy
     * @param predictor for this executor, with the time of swaps
     */
    public StrategySelector guarded(Options options, StepPredictor predictor) {
        return guarded(options, predictor, SelectorLimits.DEFAULT);
    }

    StrategySelector guarded(Options options, StepPredictor predictor, SelectorLimits limits) {
        CostModel cost = predictor.cost();
        StrategySelector.Baseline baseline =
                new StrategySelector.Baseline(gpuOnly(options), drain(options, cost), !allHost);
        return selector(options, predictor, arms(options, cost), Optional.of(baseline), limits);
    }

    private static StrategySelector selector(
            Options options,
            StepPredictor predictor,
            List<Arm> arms,
            Optional<StrategySelector.Baseline> baseline,
            SelectorLimits limits) {
        ArmRanking ranking = new GoodputRanking(predictor, options.rules().defaultTargets());
        return new StrategySelector(arms, baseline, predictor, ranking, limits);
    }

    /**
     * The strategy's arms. {@code apex} has one arm where its host tokens move through the layers together; otherwise
     * it has two, its rules and async overlap.
     */
    private List<Arm> arms(Options options, CostModel cost) {
        if (this != APEX || options.apexCohort()) {
            return List.of(new Arm(flag, policy(options, cost), kinds));
        }
        AsyncOverlap overlap = asyncOverlap(options, cost, false);
        Neo neo = neo(options, cost);
        // both arms share this policy; the rules' policy passes completed steps on to it, so it counts each step once
        Arm rules = new Arm(
                "apex's rules",
                apex(options, cost, overlap),
                kinds,
                Optional.of((state, why) -> neo.draft(state, why)),
                Optional.empty());
        Arm alone = new Arm(
                "async-overlap alone",
                (state, why) -> overlap.draft(state, why),
                Set.of(Kind.IN_FLIGHT),
                Optional.empty(),
                Optional.of(overlap::draining));
        return List.of(rules, alone);
    }

    /** The policy of {@link #GPU_ONLY}, which predicts no times and so needs no cost model. */
    public static GpuOnly gpuOnly(Options options) {
        return new GpuOnly(
                options.budget(), options.preemption(), options.queueBypasses(), options.piggybackedTokens());
    }

    private static HostDrain drain(Options options, CostModel cost) {
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

    private static Apex apex(Options options, CostModel cost, AsyncOverlap overlap) {
        return new Apex(
                options.budget(),
                paper(cost),
                pipeline(options, cost, true),
                overlap,
                new GpuOnly(options.budget(), options.preemption()),
                options.apexMinCpuRatio(),
                options.inFlight().completesWithinStep());
    }

    private static Neo neo(Options options, CostModel cost) {
        return new Neo(pipeline(options, cost, true), paper(cost));
    }

    /** The predictor of the papers: tiers overlap and swaps take no time. */
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

    private static AsyncOverlap asyncOverlap(Options options, CostModel cost, boolean cohort) {
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
