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
 * When the attention of in-flight tokens is back. Real hardware has its own answer; executors that compute in one place
 * take theirs from here, so that every order can be tried. Tokens are equal under all of them.
 *
 * <p>Owned by: the executor's thread.
 */
public interface Readiness {
    /** The row's q, k and v of {@code layer} have left for the CPU. */
    default void issued(long step, int layer, long sequence) {}

    /**
     * @param standing rows whose attention of {@code layer} is under way or done, in the order in which they were
     *     issued
     * @return those whose result is there when the GPU comes to the layer, in the order in which they were completed
     */
    List<Long> ready(long step, int layer, List<Long> standing);

    /** Every result is there at once: rows go through all layers in the step that admits them. */
    static Readiness allEarly() {
        return (step, layer, standing) -> standing;
    }

    /** Every result comes a whole step later, as in APEX §3.3: one layer a step. */
    static Readiness allLate() {
        return new Delayed(sequence -> 1, 0);
    }

    /** Results take 0, 1 or 2 steps and overtake each other. */
    static Readiness random(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        return new Delayed(sequence -> random.nextInt(3), seed);
    }

    /** What happened in these steps, once more. */
    static Readiness recorded(List<StepResult> results) {
        Map<Long, List<RowProgress>> bySteps = new HashMap<>();
        results.forEach(result -> bySteps.put(result.step(), result.trace()));
        return (step, layer, standing) -> bySteps.getOrDefault(step, List.of()).stream()
                .filter(progress -> progress.layer() == layer && standing.contains(progress.sequence()))
                .map(RowProgress::sequence)
                .toList();
    }

    /** Each result after a number of steps; those of one step in a seeded order, or in their own with seed 0. */
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
