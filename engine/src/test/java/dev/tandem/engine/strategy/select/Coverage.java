package dev.tandem.engine.strategy.select;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;

/** Counts the cases that the runs of a strategy have covered. */
final class Coverage {
    enum Seen {
        CPU_ROWS,
        TWO_SUB_BATCHES,
        IN_FLIGHT,
        OVER_SEVERAL_STEPS,
        RESUMED,
        PAUSED,
        OFFLOADED,
        OFFLOADED_IN_CHUNKS,
        TO_HOST,
        TO_GPU,
        ROTATED,
        PREEMPTED,
        BYPASSED,
        PLACEHOLDER,
        FORCED,
        LATE_BITMASK,
        SAMPLED_LATER,
        NOT_SAMPLED,
        LOST,
        ABORTED,
        STOPPED,
        OFFLOADING,
        GUARD_LOSS,
        TRIAL_WARM_UP,
        TRIAL_RUN,
        PREFIX_HIT,
        PREFIX_EVICTED,
        PREFIX_SHARED,
        PREFIX_IN_HOST_BLOCKS,
        PREFIX_COPIED,
        PREFIX_DEMOTED,
        /** The same in models whose layers form groups. */
        GROUPS_COPIED,
        GROUPS_DEMOTED
    }

    private final Map<Seen, Integer> seen = new EnumMap<>(Seen.class);
    private final Map<String, Integer> reasons = new TreeMap<>();
    private final Set<Shape> shapes = EnumSet.noneOf(Shape.class);
    private final Set<Phase> phases = EnumSet.noneOf(Phase.class);
    private int runs;
    private int plans;
    private int results;

    int runs() {
        return runs;
    }

    void note(Seen what, boolean met) {
        if (met) {
            seen.merge(what, 1, Integer::sum);
        }
    }

    /** Notes what a step has covered. */
    void step(
            ContentExecutor executor,
            DecisionLog log,
            EngineStats stats,
            Optional<StrategySelector> guard,
            Policy strategy) {
        for (; plans < executor.plans.size(); plans++) {
            plan(executor.plans.get(plans));
        }
        for (; results < executor.history.size(); results++) {
            StepResult result = executor.history.get(results);
            note(Seen.PAUSED, !result.paused().isEmpty());
            note(Seen.LOST, !result.lost().isEmpty());
        }
        for (Decision decision : log.last(1)) {
            shapes.add(decision.chosen());
            reasons.merge(decision.reason().replaceAll("-?[0-9]+([.][0-9]+)?", "#"), 1, Integer::sum);
        }
        note(Seen.SAMPLED_LATER, executor.sampledLater > 0);
        note(Seen.NOT_SAMPLED, executor.skippedRows > 0);
        note(Seen.PREFIX_HIT, stats.prefixCache().hits() > 0);
        note(Seen.PREFIX_IN_HOST_BLOCKS, stats.prefixCache().hostHits() > 0);
        note(Seen.PREFIX_COPIED, stats.prefixCache().copiedHits() > 0);
        note(Seen.PREFIX_DEMOTED, stats.prefixCache().demotions() > 0);
        boolean groups = executor.limits().layout().groups() > 1;
        note(Seen.GROUPS_COPIED, groups && stats.prefixCache().copiedHits() > 0);
        note(Seen.GROUPS_DEMOTED, groups && stats.prefixCache().demotions() > 0);
        note(Seen.PREFIX_EVICTED, stats.prefixCache().gpu().evictions() > 0);
        note(Seen.IN_FLIGHT, stats.requests().inFlight() > 0);
        note(Seen.OFFLOADING, guard.map(StrategySelector::isOffloading).orElse(false));
        note(Seen.GUARD_LOSS, guard.map(judge -> judge.losses() > 0).orElse(false));
        if (strategy instanceof StrategySelector selector) {
            phases.add(selector.phase());
            note(Seen.TRIAL_WARM_UP, selector.isTrial() && selector.phase() == Phase.WARM_UP);
            note(Seen.TRIAL_RUN, selector.isTrial() && selector.phase() == Phase.RUN);
        }
    }

    private void plan(StepPlan plan) {
        List<Chunk> chunks = plan.subBatches().stream()
                .flatMap(batch -> batch.chunks().stream())
                .toList();
        List<Integer> gpuBlocks = chunks.stream()
                .filter(chunk -> chunk.site() == AttentionSite.GPU_FROM_GPU)
                .flatMap(chunk -> Arrays.stream(chunk.kv(0).blocks()).boxed())
                .toList();
        note(Seen.PREFIX_SHARED, gpuBlocks.stream().distinct().count() < gpuBlocks.size());
        boolean out = plan.swaps().stream().anyMatch(swap -> swap.to() == KvTier.HOST);
        boolean in = plan.swaps().stream().anyMatch(swap -> swap.to() == KvTier.GPU);
        note(Seen.TO_HOST, out);
        note(Seen.TO_GPU, in);
        note(Seen.ROTATED, out && in);
        note(Seen.TWO_SUB_BATCHES, plan.subBatches().size() == 2);
        note(Seen.RESUMED, !plan.resume().isEmpty());
        note(
                Seen.OVER_SEVERAL_STEPS,
                plan.slotsPerLayer() > 0 && plan.admissions().isEmpty());
        for (Chunk chunk : chunks) {
            note(Seen.CPU_ROWS, chunk.site() == AttentionSite.CPU_FROM_HOST);
            note(Seen.OFFLOADED, chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD);
            note(Seen.OFFLOADED_IN_CHUNKS, chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD && chunk.start() > 0);
            note(Seen.PLACEHOLDER, chunk.tokens()[chunk.rows() - 1] == Chunk.PLACEHOLDER);
        }
    }

    void end(Collection<EngineHarness.Answer> answers) {
        answers.forEach(answer -> {
            note(Seen.PREEMPTED, answer.usage != null && answer.usage.preemptions() > 0);
            note(Seen.ABORTED, answer.reason == FinishReason.ABORT);
            note(Seen.STOPPED, answer.reason == FinishReason.STOP);
        });
    }

    void add(Coverage run) {
        runs++;
        run.seen.forEach((what, count) -> seen.merge(what, count, Integer::sum));
        run.reasons.forEach((reason, count) -> reasons.merge(reason, count, Integer::sum));
        shapes.addAll(run.shapes);
        phases.addAll(run.phases);
    }

    void check(Strategy strategy) {
        Set<Seen> missing = expected(strategy);
        missing.removeAll(seen.keySet());
        assertThat(missing)
                .as("cases that %d runs of %s have not covered; covered: %s", runs, strategy.flag(), seen)
                .isEmpty();
        for (String reason : reasons(strategy)) {
            assertThat(reasons.keySet()).as("reasons of %s", strategy.flag()).anyMatch(met -> met.contains(reason));
        }
        if (strategy.offloads()) {
            assertThat(phases).as("phases of %s", strategy.flag()).containsExactlyInAnyOrder(Phase.values());
        }
        assertThat(shapes).as("shapes of %s", strategy.flag()).containsExactlyInAnyOrderElementsOf(shapes(strategy));
    }

    /** Checks what occurs in few runs of each strategy: a twelfth of them share prefixes in groups of layers. */
    static void checkGroups(Collection<Coverage> ofStrategies) {
        for (Seen rare : List.of(Seen.GROUPS_COPIED, Seen.GROUPS_DEMOTED)) {
            assertThat(ofStrategies)
                    .as("%s under at least half of the strategies", rare)
                    .filteredOn(coverage -> coverage.seen.containsKey(rare))
                    .hasSizeGreaterThanOrEqualTo(ofStrategies.size() / 2);
        }
    }

    private static Set<Seen> expected(Strategy strategy) {
        Set<Seen> expected = EnumSet.of(
                Seen.PREEMPTED,
                Seen.BYPASSED,
                Seen.PLACEHOLDER,
                Seen.ABORTED,
                Seen.STOPPED,
                Seen.TO_HOST,
                Seen.TO_GPU,
                Seen.PREFIX_HIT,
                Seen.PREFIX_EVICTED,
                Seen.PREFIX_SHARED,
                Seen.PREFIX_COPIED,
                Seen.PREFIX_DEMOTED);
        if (!strategy.allHost()) { // host sequences decode one token per step
            expected.addAll(EnumSet.of(Seen.FORCED, Seen.LATE_BITMASK, Seen.SAMPLED_LATER, Seen.NOT_SAMPLED));
        }
        if (strategy == Strategy.SWIFTLLM) { // it keeps the order of arrival
            expected.remove(Seen.BYPASSED);
        }
        if (!strategy.offloads()) {
            return expected;
        }
        // strategies without in-flight tokens of their own have some while the guard drains the host
        expected.addAll(EnumSet.of(
                Seen.IN_FLIGHT,
                Seen.OVER_SEVERAL_STEPS,
                Seen.OFFLOADED,
                Seen.OFFLOADING,
                Seen.GUARD_LOSS,
                Seen.PREFIX_IN_HOST_BLOCKS));
        expected.addAll(
                switch (strategy) {
                    case GPU_ONLY, SWIFTLLM -> EnumSet.noneOf(Seen.class);
                    case SIMPLE_OFFLOAD -> EnumSet.of(Seen.CPU_ROWS, Seen.OFFLOADED_IN_CHUNKS);
                    case SYMMETRIC -> EnumSet.of(Seen.CPU_ROWS, Seen.TWO_SUB_BATCHES);
                    case FASTDECODE_PLUS -> EnumSet.of(Seen.CPU_ROWS, Seen.OFFLOADED_IN_CHUNKS, Seen.TWO_SUB_BATCHES);
                    case ASYMMETRIC, NEO, ADAPTIVE_PIPELINING ->
                        EnumSet.of(Seen.CPU_ROWS, Seen.OFFLOADED_IN_CHUNKS, Seen.TWO_SUB_BATCHES, Seen.ROTATED);
                    case ASYNC_OVERLAP -> EnumSet.of(Seen.OFFLOADED_IN_CHUNKS, Seen.ROTATED, Seen.PAUSED, Seen.LOST);
                    case APEX, ADAPTIVE ->
                        EnumSet.of(
                                Seen.CPU_ROWS,
                                Seen.OFFLOADED_IN_CHUNKS,
                                Seen.TWO_SUB_BATCHES,
                                Seen.ROTATED,
                                Seen.RESUMED,
                                Seen.PAUSED,
                                Seen.LOST,
                                Seen.TRIAL_WARM_UP,
                                Seen.TRIAL_RUN);
                });
        return expected;
    }

    private static Set<Shape> shapes(Strategy strategy) {
        return switch (strategy) {
            case GPU_ONLY, SWIFTLLM -> EnumSet.of(Shape.GPU_ONLY);
            case SIMPLE_OFFLOAD -> EnumSet.of(Shape.GPU_ONLY, Shape.OFFLOAD, Shape.ASYNC);
            case SYMMETRIC -> EnumSet.of(Shape.GPU_ONLY, Shape.OFFLOAD, Shape.PIPELINE, Shape.ASYNC);
            case FASTDECODE_PLUS, ASYMMETRIC, APEX -> EnumSet.of(Shape.GPU_ONLY, Shape.PIPELINE, Shape.ASYNC);
            case NEO, ADAPTIVE_PIPELINING, ADAPTIVE ->
                EnumSet.of(Shape.GPU_ONLY, Shape.SAME_LAYER, Shape.PIPELINE, Shape.ASYNC);
            case ASYNC_OVERLAP -> EnumSet.of(Shape.GPU_ONLY, Shape.ASYNC);
        };
    }

    /** Parts of the reasons of decisions, with # for numbers. */
    private static List<String> reasons(Strategy strategy) {
        List<String> guards = List.of(
                "guard: offloading is predicted to gain # %, min # %, so gpu-only",
                "guard: offloading is predicted to gain # %, min # %; gpu-only is measured first",
                "guard: offloading lost to gpu-only, so gpu-only",
                "guard: the strategy would not use the host in this step",
                "guard: offloading has ended and the host drains: # in-flight tokens");
        List<String> own = switch (strategy) {
            case GPU_ONLY -> List.of("gpu-only: # rows");
            case SWIFTLLM -> List.of("swiftllm: # tokens of whole prompts", "swiftllm: # decodes");
            case SIMPLE_OFFLOAD -> List.of("the GPU waits for it at each layer");
            case SYMMETRIC ->
                List.of("rows of prefill in a step of their own", "symmetric: the CPU computes attention for");
            case FASTDECODE_PLUS, ASYMMETRIC -> List.of("the CPU computes attention for # and # of them");
            case ASYNC_OVERLAP -> List.of("# in-flight tokens, # of them admitted now");
            case NEO, ADAPTIVE_PIPELINING ->
                List.of(
                        "neo: asymmetric is predicted",
                        "neo: gpu-only is predicted",
                        "neo: no CPU attention hides",
                        "same-layer: the CPU attends for # host tokens");
            case APEX, ADAPTIVE ->
                List.of(
                        "apex: no CPU requests, so gpu-only",
                        "apex: # CPU requests are fewer than",
                        "no CPU request fits the pipeline, so async-overlap",
                        "inequality (#) fails, # <= # tokens/s, so async-overlap",
                        "inequality (#) holds, # > # tokens/s, so asymmetric",
                        "in flight, so async-overlap",
                        "in flight, so asymmetric",
                        "in flight, so gpu-only",
                        "async-overlap does # of gpu-only's work, so async-overlap",
                        "async-overlap does # of gpu-only's work, so they return");
        };
        List<String> all = new ArrayList<>(own);
        all.addAll(strategy.offloads() ? guards : List.of());
        return all;
    }
}
