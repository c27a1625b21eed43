package dev.tandem.engine.executor;

import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepResult.RowProgress;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.LongToIntFunction;

/**
 * Decides when the attention results of in-flight tokens return, for executors that compute everything in one place.
 *
 * <p>On real hardware the workers' speed decides. Here every order can be tried; the sampled tokens are the same under
 * all of them.
 *
 * <p>Owned by: the executor's thread.
 */
public interface Readiness {
    /** Records that the token's q, k and v of {@code layer} were sent to the CPU. */
    default void issued(long step, int layer, long sequence) {}

    /**
     * The in-flight tokens whose result has returned when the GPU reaches a layer.
     *
     * @param standing sequences whose attention of {@code layer} was issued, in the order in which it was
     * @return those whose result has returned, in the order in which it did
     */
    List<Long> ready(long step, int layer, List<Long> standing);

    /** Every result returns at once: tokens pass all layers in the step that admits them. */
    static Readiness allEarly() {
        return (step, layer, standing) -> standing;
    }

    /** Every result returns one step later, as in APEX §3.3: one layer per step. */
    static Readiness allLate() {
        return new Delayed(sequence -> 1, 0);
    }

    /** Results take 0, 1 or 2 steps and return in random order. */
    static Readiness random(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        return new Delayed(sequence -> random.nextInt(3), seed);
    }

    /** Repeats the order of recorded steps. */
    static Readiness recorded(List<StepResult> results) {
        Map<Long, List<RowProgress>> bySteps = new HashMap<>();
        results.forEach(result -> bySteps.put(result.step(), result.trace()));
        return (step, layer, standing) -> bySteps.getOrDefault(step, List.of()).stream()
                .filter(progress -> progress.layer() == layer && standing.contains(progress.sequence()))
                .map(RowProgress::sequence)
                .toList();
    }

    /** Each result takes a number of steps. Those of one step return in a seeded order, or as issued with seed 0. */
    final class Delayed implements Readiness {
        private final LongToIntFunction delay;
        private final long seed;
        private final Map<Long, Long> readyFrom = new HashMap<>();

        private Delayed(LongToIntFunction delay, long seed) {
            this.delay = delay;
            this.seed = seed;
        }

        @Override
        public void issued(long step, int layer, long sequence) {
            readyFrom.put(sequence, step + delay.applyAsInt(sequence));
        }

        @Override
        public List<Long> ready(long step, int layer, List<Long> standing) {
            List<Long> ready = new ArrayList<>(standing);
            ready.removeIf(sequence -> readyFrom.getOrDefault(sequence, 0L) > step);
            if (seed != 0) {
                ready.sort(Comparator.comparingLong(
                        sequence -> new SplittableRandom(seed ^ sequence ^ step << 20).nextLong()));
            }
            return ready;
        }
    }
}
