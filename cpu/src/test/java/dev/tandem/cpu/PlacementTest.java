package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.batch.Chunk;
import dev.tandem.engine.batch.StepPlan;
import dev.tandem.engine.batch.SubBatch;
import dev.tandem.engine.kv.Place;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.model.config.DataType;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A request's greedy tokens depend on nothing but the request: not on where its KV is or moves to, on its neighbours,
 * on how its prompt was cut, on preemption, or on how the step was split. Bit for bit, so tokens are compared.
 */
class PlacementTest {
    private static final int OUTPUT = 48;
    private static final Budget WIDE = new Budget(256, 16, 256);

    /** One way of running the same requests. */
    record Way(String name, Budget budget, int gpuBlocks, int hostBlocks, int threads, SchedulerMaker scheduler) {
        @Override
        public String toString() {
            return name;
        }
    }

    interface SchedulerMaker {
        Scheduler make(Budget budget);
    }

    private static SchedulerMaker placed(Preemption preemption, Placement placement) {
        return budget -> new GpuOnlyScheduler(budget, preemption, placement);
    }

    private static SchedulerMaker gpu(Preemption preemption) {
        return placed(preemption);
    }

    static Stream<Way> ways() {
        return Stream.of(
                new Way("all on the GPU", WIDE, 64, 64, 2, gpu(Preemption.SWAP)),
                new Way("one thread", WIDE, 64, 64, 1, gpu(Preemption.SWAP)),
                new Way("three threads", WIDE, 64, 64, 3, gpu(Preemption.SWAP)),
                new Way("chunks of 7", new Budget(40, 16, 7), 64, 64, 2, gpu(Preemption.SWAP)),
                new Way("chunks of 1", new Budget(16, 16, 1), 64, 64, 2, gpu(Preemption.SWAP)),
                new Way("preempted by swap", WIDE, 13, 64, 2, gpu(Preemption.SWAP)),
                new Way("preempted by recomputation", WIDE, 13, 64, 2, gpu(Preemption.RECOMPUTE)),
                new Way("swap without room on the host", WIDE, 13, 3, 2, gpu(Preemption.SWAP)),
                new Way("all on the host", WIDE, 64, 64, 2, placed(Preemption.SWAP, s -> Place.HOST)),
                new Way("mixed", WIDE, 64, 64, 2,
                        placed(Preemption.SWAP, s -> s.key() % 2 == 0 ? Place.GPU : Place.HOST)),
                new Way("mixed, both pools tight", WIDE, 16, 16, 2,
                        placed(Preemption.SWAP, s -> s.key() % 2 == 0 ? Place.GPU : Place.HOST)),
                new Way("migrating", WIDE, 64, 64, 2,
                        budget -> new Migrating(gpu(Preemption.SWAP).make(budget), 42)),
                new Way("two sub-batches", WIDE, 64, 64, 2, budget -> new Split(gpu(Preemption.SWAP).make(budget))));
    }

    static Stream<Arguments> familiesAndWays() {
        return Stream.of("llama31", "qwen3")
                .flatMap(family -> ways().map(way -> Arguments.of(family, way)));
    }

    @ParameterizedTest
    @MethodSource("familiesAndWays")
    void tokensAreThoseOfTheRequestAlone(String family, Way way) {
        Map<String, int[]> prompts = prompts();
        Map<String, List<Integer>> expected = alone(family, prompts);
        try (EngineHarness engine = new EngineHarness(
                TestModels.executor(family, DataType.BFLOAT16, way.gpuBlocks(), way.hostBlocks(), way.threads()),
                way.scheduler().make(way.budget()),
                way.budget())) {
            prompts.forEach((id, prompt) -> engine.submit(id, prompt, EngineHarness.greedy(OUTPUT)));
            engine.run();
            prompts.keySet().forEach(id -> assertThat(engine.tokens(id)).as("request %s, %s", id, way).isEqualTo(expected.get(id)));
            assertThat(engine.loop.stats().gpuBlocksUsed()).isZero();
            assertThat(engine.loop.stats().hostBlocksUsed()).isZero();
            if (way.name().startsWith("preempted")) {
                assertThat(engine.loop.stats().preemptions()).as("the pool must be too small").isPositive();
            }
        }
    }

    private static Map<String, List<Integer>> alone(String family, Map<String, int[]> prompts) {
        Map<String, List<Integer>> tokens = new LinkedHashMap<>();
        try (EngineHarness engine = EngineHarness.gpuOnly(
                TestModels.executor(family, DataType.BFLOAT16, 64, 0, 1), WIDE, Preemption.RECOMPUTE)) {
            prompts.forEach((id, prompt) -> {
                engine.submit(id, prompt, EngineHarness.greedy(OUTPUT));
                engine.run();
                tokens.put(id, engine.tokens(id));
            });
        }
        return tokens;
    }

    private static Map<String, int[]> prompts() {
        SplittableRandom random = new SplittableRandom(7);
        Map<String, int[]> prompts = new LinkedHashMap<>();
        for (int length : new int[] {1, 5, 16, 17, 31, 48, 70, 3}) {
            prompts.put("r" + length, random.ints(length, 3, 301).toArray());
        }
        return prompts;
    }

    /** Moves random running sequences to the other place before each step. */
    private static final class Migrating implements Scheduler {
        private final Scheduler inner;
        private final SplittableRandom random;

        Migrating(Scheduler inner, long seed) {
            this.inner = inner;
            this.random = new SplittableRandom(seed);
        }

        @Override
        public StepPlan plan(SchedulerState state) {
            List<Swap> swaps = new ArrayList<>();
            for (Sequence sequence : state.running()) {
                if (random.nextInt(3) == 0 && sequence.computed() > 0) {
                    Place other = sequence.table().place() == Place.GPU ? Place.HOST : Place.GPU;
                    state.kv().move(sequence, other).ifPresent(swaps::add);
                    state.kv().grow(sequence, sequence.length());
                }
            }
            StepPlan plan = inner.plan(state);
            swaps.addAll(plan.swaps());
            return new StepPlan(plan.step(), swaps, plan.subBatches(), List.of(), 0, List.of());
        }
    }

    /** Every other chunk goes to a second sub-batch. */
    private record Split(Scheduler inner) implements Scheduler {
        @Override
        public StepPlan plan(SchedulerState state) {
            StepPlan plan = inner.plan(state);
            if (plan.subBatches().isEmpty() || plan.subBatches().getFirst().chunks().size() < 2) {
                return plan;
            }
            List<Chunk> even = new ArrayList<>();
            List<Chunk> odd = new ArrayList<>();
            for (Chunk chunk : plan.subBatches().getFirst().chunks()) {
                (even.size() > odd.size() ? odd : even).add(chunk);
            }
            return new StepPlan(
                    plan.step(), plan.swaps(), List.of(new SubBatch(even), new SubBatch(odd)), List.of(), 0, List.of());
        }
    }
}
