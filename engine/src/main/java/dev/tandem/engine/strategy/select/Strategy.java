package dev.tandem.engine.strategy.select;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.Asymmetric;
import dev.tandem.engine.strategy.AsyncOverlap;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.HostDrain;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.Pipeline;
import dev.tandem.engine.strategy.SameLayer;
import dev.tandem.engine.strategy.SpeedupEstimate.Kind;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.paper.Apex;
import dev.tandem.engine.strategy.paper.Neo;
import dev.tandem.engine.strategy.paper.SimpleOffload;
import dev.tandem.engine.strategy.paper.SwiftLlm;
import dev.tandem.engine.strategy.paper.Symmetric;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.DoubleSupplier;
import java.util.stream.Collectors;

/**
 * The strategies of {@code --strategy}. Those of the papers follow the papers or NEO's artifact; the others are
 * Tandem's, two of which improve one of a paper (ADR 38).
 */
public enum Strategy {
    /** The GPU holds all KV of running sequences and computes all attention: {@link GpuOnly}. */
    GPU_ONLY("gpu-only", Origin.TANDEM, false, Set.of(), Group.ADMISSION, Group.GPU_PROMPTS),
    /** NEO's baseline, without offloading: {@link SwiftLlm}. */
    SWIFTLLM("swiftllm", Origin.PAPER, false, Set.of()),
    /** The CPU computes all decode attention while the GPU waits: {@link SimpleOffload}. */
    SIMPLE_OFFLOAD("simple-offload", Origin.PAPER, true, Set.of(Kind.TWO_SUB_BATCHES), Group.ADMISSION, Group.CHUNKS),
    /** The CPU computes all decode attention, in two even sub-batches: {@link Symmetric}. */
    SYMMETRIC("symmetric", Origin.PAPER, true, Set.of(Kind.TWO_SUB_BATCHES), Group.ADMISSION),
    /** Two sub-batches by the rules of NEO, with all KV on the host: {@link Asymmetric}. */
    FASTDECODE_PLUS(
            "fastdecode-plus",
            Origin.PAPER,
            true,
            Set.of(Kind.TWO_SUB_BATCHES),
            Group.ADMISSION,
            Group.CHUNKS,
            Group.STEP_5),
    /** Two sub-batches in every step, with KV on both tiers: {@link Asymmetric}. */
    ASYMMETRIC(
            "asymmetric",
            Origin.TANDEM,
            false,
            Set.of(Kind.TWO_SUB_BATCHES_WITH_PROMPTS),
            Group.ADMISSION,
            Group.CHUNKS,
            Group.STEP_5,
            Group.PIPELINE),
    /** One batch with in-flight tokens, for which the GPU never waits: {@link AsyncOverlap}. */
    ASYNC_OVERLAP(
            "async-overlap",
            Origin.TANDEM,
            false,
            Set.of(Kind.IN_FLIGHT),
            Group.ADMISSION,
            Group.CHUNKS,
            Group.GPU_PROMPTS,
            Group.ASYNC),
    /** Two sub-batches or gpu-only, whichever is predicted to be faster: {@link Neo}. */
    NEO(
            "neo",
            Origin.PAPER,
            false,
            Set.of(Kind.TWO_SUB_BATCHES_WITH_PROMPTS),
            Group.ADMISSION,
            Group.CHUNKS,
            Group.STEP_5,
            Group.PIPELINE,
            Group.STEP_6,
            Group.ONE_BATCH),
    /** Two sub-batches, async overlap or gpu-only, by the rules of APEX: {@link Apex}. */
    APEX(
            "apex",
            Origin.PAPER,
            false,
            Set.of(Kind.IN_FLIGHT, Kind.TWO_SUB_BATCHES_WITH_PROMPTS),
            Group.ADMISSION,
            Group.CHUNKS,
            Group.GPU_PROMPTS,
            Group.STEP_5,
            Group.PIPELINE,
            Group.ASYNC,
            Group.APEX),
    /** {@link #NEO} with Tandem's deviations, among them steps of one batch with same-layer tokens. */
    ADAPTIVE_PIPELINING(
            "adaptive-pipelining",
            Origin.TANDEM,
            false,
            Set.of(Kind.TWO_SUB_BATCHES_WITH_PROMPTS, Kind.SAME_LAYER),
            Group.ADMISSION,
            Group.CHUNKS,
            Group.STEP_5,
            Group.PIPELINE,
            Group.STEP_6,
            Group.ONE_BATCH),
    /** {@link #APEX} with Tandem's deviations: its rules and async overlap alone are measured against each other. */
    ADAPTIVE(
            "adaptive",
            Origin.TANDEM,
            false,
            Set.of(Kind.IN_FLIGHT, Kind.TWO_SUB_BATCHES_WITH_PROMPTS, Kind.SAME_LAYER),
            Group.ADMISSION,
            Group.CHUNKS,
            Group.GPU_PROMPTS,
            Group.STEP_5,
            Group.PIPELINE,
            Group.STEP_6,
            Group.ASYNC,
            Group.APEX,
            Group.ONE_BATCH);

    /** Whose rules a strategy has. */
    private enum Origin {
        PAPER,
        TANDEM
    }

    /** Deviations that are read together. */
    private enum Group {
        ADMISSION(Deviation.ROOM_TO_GROW),
        CHUNKS(Deviation.CHUNKED_PREFILL),
        GPU_PROMPTS(Deviation.PIGGYBACKED_PREFILL, Deviation.QUEUE_BYPASS),
        STEP_5(Deviation.STEP_5_KEEPS, Deviation.STAGE_OVERHEAD),
        PIPELINE(
                Deviation.RESERVED_HOST_TOKENS,
                Deviation.WHOLE_TILES,
                Deviation.LONGEST_WAITING_FIRST,
                Deviation.PIGGYBACKED_PREFILL,
                Deviation.ALTERNATING_STEP_4,
                Deviation.WAITS_FOR_HOST_TOKENS,
                Deviation.ROTATION,
                Deviation.STEP_ENDS),
        STEP_6(Deviation.STEP_6_STRIPS_PROMPTS, Deviation.STEP_6_COUNTS_CONTEXT),
        ONE_BATCH(Deviation.SAME_LAYER),
        ASYNC(
                Deviation.LONGEST_WAITING_FIRST,
                Deviation.ROTATION,
                Deviation.SPREAD_HOST_TOKENS,
                Deviation.LIMITED_HOST_PROMPTS,
                Deviation.RETURNS_IN_FLIGHT),
        APEX(
                Deviation.MIN_CPU_RATIO,
                Deviation.COMPARES_WITH_ASYNC,
                Deviation.PARTIAL_PROGRESS,
                Deviation.MEASURED_ARMS);

        private final Set<Deviation> deviations;

        Group(Deviation... deviations) {
            this.deviations = Set.of(deviations);
        }
    }

    private final String flag;
    private final Origin origin;
    private final boolean allHost;
    private final Set<Kind> kinds;
    private final Set<Deviation> deviations;

    Strategy(String flag, Origin origin, boolean allHost, Set<Kind> kinds, Group... groups) {
        this.flag = flag;
        this.origin = origin;
        this.allHost = allHost;
        this.kinds = kinds;
        this.deviations = Arrays.stream(groups)
                .flatMap(group -> group.deviations.stream())
                .collect(Collectors.toCollection(() -> EnumSet.noneOf(Deviation.class)));
    }

    /** Whether decodes of the strategy may have their KV on the host. */
    public boolean offloads() {
        return this != GPU_ONLY && this != SWIFTLLM;
    }

    /** The fidelity of a strategy when none is named: the papers' strategies are as printed. */
    public Fidelity fidelity() {
        return origin == Origin.PAPER ? Fidelity.PRINTED : Fidelity.TANDEM;
    }

    /** Tandem's improved form of a paper's strategy, for comparisons by fidelity; the strategy itself where none is. */
    public Strategy improved() {
        return switch (this) {
            case SWIFTLLM -> GPU_ONLY;
            case NEO -> ADAPTIVE_PIPELINING;
            case APEX -> ADAPTIVE;
            case GPU_ONLY,
                    SIMPLE_OFFLOAD,
                    SYMMETRIC,
                    FASTDECODE_PLUS,
                    ASYMMETRIC,
                    ASYNC_OVERLAP,
                    ADAPTIVE_PIPELINING,
                    ADAPTIVE -> this;
        };
    }

    /** The deviations that the strategy reads. */
    public Set<Deviation> deviations() {
        return Collections.unmodifiableSet(deviations);
    }

    /**
     * The deviations of a fidelity. An improved strategy never has a paper's name, and a paper's rules never have a
     * name of Tandem's.
     *
     * @throws ConfigurationException when the strategy is not of this fidelity
     */
    public Deviations deviations(Fidelity fidelity) {
        if ((fidelity == Fidelity.TANDEM) == (origin == Origin.PAPER)) {
            throw new ConfigurationException("--strategy " + flag + " is "
                    + (origin == Origin.PAPER ? "a paper's" : "Tandem's own")
                    + " and has no --fidelity " + fidelity.flag() + "; "
                    + (origin == Origin.TANDEM
                            ? "use swiftllm, neo or apex, or change single rules by --deviation"
                            : improved() == this
                                    ? "use printed or artifact"
                                    : "use --strategy " + improved().flag + ", or --fidelity printed or artifact"));
        }
        return Deviations.of(fidelity);
    }

    /**
     * Changes one deviation, as {@code --deviation} says.
     *
     * @param assignment NAME=VALUE
     * @throws ConfigurationException that names what is not known, or what the strategy does not read
     */
    public Deviations with(Deviations base, String assignment) {
        Deviations changed = base.with(assignment);
        String name = assignment.substring(0, assignment.indexOf('='));
        if (!deviations.contains(Deviation.of(name))) {
            throw new ConfigurationException("--deviation " + name + " changes nothing in --strategy " + flag
                    + "; it has "
                    + (deviations.isEmpty()
                            ? "no deviations"
                            : deviations.stream().map(Deviation::flag).collect(Collectors.joining(", "))));
        }
        return changed;
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
     * The options of a strategy. {@link #builder} begins with Tandem's deviations and the limits of the papers.
     *
     * @param budget of a step
     * @param preemption what happens to the KV of a preempted sequence
     * @param rules which sequences may be on the host, and for how long
     * @param deviations from the papers
     * @param queueBypasses max number of later requests that start before one that does not fit
     * @param inFlight limits of the executor for in-flight tokens
     * @param piggybacking what prompt tokens cost in decode steps; {@link PiggybackedPrefill#NONE} computes prompts at
     *     once
     */
    public record Options(
            Budget budget,
            Preemption preemption,
            TierRules rules,
            Deviations deviations,
            int queueBypasses,
            InFlightLimits inFlight,
            PiggybackedPrefill piggybacking) {
        /** Options of which only the budget is set. */
        public static Options of(Budget budget) {
            return builder(budget).build();
        }

        /** Returns a builder of which only the budget is set. */
        public static Builder builder(Budget budget) {
            return new Builder(budget);
        }

        /** Builds {@link Options}. */
        public static final class Builder {
            private final Budget budget;
            private Preemption preemption = Preemption.SWAP;
            private TierRules rules = TierRules.neutral();
            private Deviations deviations = Deviations.of(Fidelity.TANDEM);
            private int queueBypasses;
            private InFlightLimits inFlight = InFlightLimits.UNLIMITED;
            private PiggybackedPrefill piggybacking = PiggybackedPrefill.NONE;

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

            /** Sets the deviations from the papers. */
            public Builder deviations(Deviations value) {
                deviations = value;
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

            /** Sets what prompt tokens cost in decode steps; {@link PiggybackedPrefill#NONE} without it. */
            public Builder piggybacking(PiggybackedPrefill value) {
                piggybacking = value;
                return this;
            }

            /** Builds the options. */
            public Options build() {
                return new Options(budget, preemption, rules, deviations, queueBypasses, inFlight, piggybacking);
            }
        }
    }

    /**
     * Checks that a sequence of {@code contextTokens} fits the tier on which the strategy keeps its KV.
     *
     * @throws ConfigurationException that names the pool and the remedy
     */
    public void check(ExecutorLimits limits, int contextTokens) {
        int needed = limits.layout().blocks(limits.maxHeld(KvTier.HOST, contextTokens));
        if (allHost && needed > limits.hostBlocks()) {
            throw new ConfigurationException("--strategy " + flag + " keeps all KV on the host: a sequence of "
                    + contextTokens
                    + " tokens needs " + needed + " blocks there and the host pool has " + limits.hostBlocks()
                    + "; raise --host-kv or lower --max-model-len");
        }
        if (offloads() && limits.hostBlocks() == 0) {
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
        Deviations rules = options.deviations();
        return switch (this) {
            case GPU_ONLY, SWIFTLLM -> gpuPolicy(options);
            case SIMPLE_OFFLOAD -> new SimpleOffload(budget, rules);
            case SYMMETRIC -> new Symmetric(budget, rules);
            case FASTDECODE_PLUS -> new Asymmetric(flag, pipeline(options, cost, false));
            case ASYMMETRIC -> new Asymmetric(flag, pipeline(options, cost, true));
            case ASYNC_OVERLAP -> asyncOverlap(options, cost, rules);
            case NEO, ADAPTIVE_PIPELINING -> neo(options, cost);
            case APEX, ADAPTIVE ->
                rules.has(Deviation.MEASURED_ARMS)
                        ? selector(
                                options, paper(cost), arms(options, cost), Optional.empty(), limits, () -> Double.NaN)
                        : apex(options, cost, asyncOverlap(options, cost, rules));
        };
    }

    /**
     * Creates the strategy's policy with the guard: a selector in which gpu-only is an arm as well.
     *
     * @param options of the strategy
     * @param predictor for this executor, with the time of swaps
     * @param idealRatio throughput of the best schedule over gpu-only's, for log lines; NaN where it is not known
     */
    public StrategySelector guarded(Options options, StepPredictor predictor, DoubleSupplier idealRatio) {
        return guarded(options, predictor, SelectorLimits.DEFAULT, idealRatio);
    }

    StrategySelector guarded(
            Options options, StepPredictor predictor, SelectorLimits limits, DoubleSupplier idealRatio) {
        CostModel cost = predictor.cost();
        StrategySelector.Baseline baseline = new StrategySelector.Baseline(
                gpuOnly(options),
                drain(options, cost),
                !allHost,
                offloads() ? options.rules().defaultTargets().perTokenNanos() : 0);
        return selector(options, predictor, arms(options, cost), Optional.of(baseline), limits, idealRatio);
    }

    private static StrategySelector selector(
            Options options,
            StepPredictor predictor,
            List<Arm> arms,
            Optional<StrategySelector.Baseline> baseline,
            SelectorLimits limits,
            DoubleSupplier idealRatio) {
        ArmRanking ranking = new GoodputRanking(predictor, options.rules().defaultTargets());
        return new StrategySelector(arms, baseline, predictor, ranking, limits, idealRatio);
    }

    /**
     * The strategy's arms. APEX's rules that are measured against async overlap have two, and without a target per
     * token a third, the rules of {@link #ADAPTIVE_PIPELINING}: no target then keeps tokens out of flight where the
     * pipeline does more. Every other strategy has one.
     */
    List<Arm> arms(Options options, CostModel cost) {
        boolean apex = this == APEX || this == ADAPTIVE;
        if (!apex || !options.deviations().has(Deviation.MEASURED_ARMS)) {
            return List.of(new Arm(flag, policy(options, cost), kinds(options)));
        }
        AsyncOverlap overlap = asyncOverlap(options, cost, options.deviations());
        Neo neo = neo(options, cost);
        Optional<Arm.BeyondTarget> beyondTarget =
                Optional.of(new Arm.BeyondTarget(overlap::keepsTarget, onceReturned(overlap, neo)));
        Arm rules = new Arm(
                "apex's rules",
                apex(options, cost, overlap),
                kinds(options),
                Optional.of((state, why) -> neo.draft(state, why)),
                Optional.empty(),
                beyondTarget);
        Arm alone = new Arm(
                "async-overlap alone",
                (state, why) -> overlap.draft(state, why),
                Set.of(Kind.IN_FLIGHT),
                Optional.empty(),
                Optional.of(overlap::draining),
                beyondTarget);
        if (this == APEX || options.rules().defaultTargets().perTokenNanos() > 0) {
            return List.of(rules, alone);
        }
        Arm pipelining = new Arm(
                ADAPTIVE_PIPELINING.flag,
                onceReturned(overlap, ADAPTIVE_PIPELINING.neo(options, cost)),
                ADAPTIVE_PIPELINING.kinds(options));
        return List.of(rules, alone, pipelining);
    }

    /**
     * Drafts the steps of a policy that puts no token in flight; tokens that are return before. It drafts alone: the
     * policy of APEX's rules passes completed steps on, so that each is counted once.
     */
    private static Policy onceReturned(AsyncOverlap overlap, Neo neo) {
        return (state, why) -> state.inFlight().isEmpty() ? neo.draft(state, why) : overlap.draining(state, why);
    }

    /** Whether the strategy reads {@link Deviation#SAME_LAYER}. */
    private boolean makesSameLayerSteps() {
        return deviations.contains(Deviation.SAME_LAYER);
    }

    /** The kinds of steps that the strategy may make with a full host. */
    private Set<Kind> kinds(Options options) {
        return options.deviations().has(Deviation.SAME_LAYER)
                ? kinds
                : kinds.stream().filter(kind -> kind != Kind.SAME_LAYER).collect(Collectors.toUnmodifiableSet());
    }

    /**
     * Creates the policy of a strategy that does not offload. It predicts no times, so it needs no cost model.
     *
     * @throws IllegalArgumentException when the strategy offloads
     */
    public Policy gpuPolicy(Options options) {
        if (offloads()) {
            throw new IllegalArgumentException("--strategy " + flag + " offloads and needs a cost model");
        }
        return this == SWIFTLLM ? new SwiftLlm(options.budget(), options.preemption()) : gpuOnly(options);
    }

    /** The policy of {@link #GPU_ONLY}, beside which the guard measures every other strategy. */
    public static GpuOnly gpuOnly(Options options) {
        Deviations rules = options.deviations();
        return new GpuOnly(
                options.budget(),
                options.preemption(),
                rules.has(Deviation.QUEUE_BYPASS) ? options.queueBypasses() : 0,
                piggybacking(options),
                rules.has(Deviation.ROOM_TO_GROW));
    }

    /** What piggybacked prompts cost; whole prompts are not piggybacked, since they may be longer than such a step. */
    private static PiggybackedPrefill piggybacking(Options options) {
        Deviations rules = options.deviations();
        return rules.has(Deviation.PIGGYBACKED_PREFILL) && rules.has(Deviation.CHUNKED_PREFILL)
                ? options.piggybacking()
                : PiggybackedPrefill.NONE;
    }

    HostDrain drain(Options options, CostModel cost) {
        // rules of its own: those of the options count each step once, and the arms do that
        TierRules rules = new TierRules(options.rules().defaultTargets(), 0, 0);
        AsyncOverlap overlap = new AsyncOverlap(
                options.budget(),
                paper(cost),
                rules,
                Deviations.of(Fidelity.TANDEM),
                options.inFlight(),
                piggybacking(options));
        Optional<Pipeline> pipeline = kinds.contains(Kind.TWO_SUB_BATCHES_WITH_PROMPTS)
                ? Optional.of(new Pipeline(options.budget(), paper(cost), rules, Deviations.of(Fidelity.TANDEM), true))
                : Optional.empty();
        return new HostDrain(gpuOnly(options), overlap, pipeline);
    }

    private Apex apex(Options options, CostModel cost, AsyncOverlap overlap) {
        return new Apex(
                options.budget(),
                paper(cost),
                pipeline(options, cost, true),
                overlap,
                options.deviations(),
                options.inFlight().completesWithinStep() ? options.inFlight().slotsPerLayer() : 0);
    }

    private Neo neo(Options options, CostModel cost) {
        Pipeline pipeline = pipeline(options, cost, true);
        Optional<SameLayer> sameLayer =
                makesSameLayerSteps() && options.deviations().has(Deviation.SAME_LAYER)
                        ? Optional.of(new SameLayer(pipeline))
                        : Optional.empty();
        return new Neo(pipeline, pipelinePredictor(options, cost), sameLayer);
    }

    /** The kinds of steps for which a pipeline's prompts may fill the host. Its host tokens are in both sub-batches. */
    private Set<Kind> pipelineKinds(Options options) {
        Set<Kind> all = EnumSet.of(Kind.HOST_TOKENS_IN_BOTH);
        kinds(options).stream()
                .filter(kind -> kind == Kind.IN_FLIGHT || kind == Kind.SAME_LAYER)
                .forEach(all::add);
        return all;
    }

    /** The predictor of the papers: tiers overlap and swaps take no time. */
    private static StepPredictor paper(CostModel cost) {
        return new StepPredictor(cost, true, 0);
    }

    private static StepPredictor pipelinePredictor(Options options, CostModel cost) {
        return options.deviations().has(Deviation.STEP_ENDS)
                ? paper(cost)
                : paper(cost).ofLayers();
    }

    private Pipeline pipeline(Options options, CostModel cost, boolean gpuKv) {
        // step 5 asks for same-layer tokens as well, and fills the host for them
        Deviations read = makesSameLayerSteps()
                ? options.deviations()
                : options.deviations().with(Deviation.SAME_LAYER, false);
        return new Pipeline(
                options.budget(),
                pipelinePredictor(options, cost),
                options.rules(),
                read,
                gpuKv,
                pipelineKinds(options),
                piggybacking(options));
    }

    private static AsyncOverlap asyncOverlap(Options options, CostModel cost, Deviations deviations) {
        return new AsyncOverlap(
                options.budget(), paper(cost), options.rules(), deviations, options.inFlight(), piggybacking(options));
    }
}
