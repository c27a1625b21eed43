package dev.tandem.cpu;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.Component;
import dev.tandem.engine.step.StepTimes;
import java.util.EnumMap;
import java.util.Map;

/**
 * Adds up the time that a step spends in each cost component.
 *
 * <p>Owned by: engine thread.
 */
final class StepClock {
    private final Clock clock;
    private final Map<Component, Long> nanos = new EnumMap<>(Component.class);

    StepClock(Clock clock) {
        this.clock = clock;
    }

    /** Runs the work and adds the time it took, in nanoseconds, to the component. */
    void measure(Component component, Runnable work) {
        long begin = clock.nanos();
        work.run();
        nanos.merge(component, clock.nanos() - begin, Long::sum);
    }

    /** Returns the sums and sets them to zero. */
    StepTimes take() {
        StepTimes times = new StepTimes(
                nanos(Component.LINEAR),
                nanos(Component.PREFILL_ATTENTION),
                nanos(Component.GPU_ATTENTION),
                nanos(Component.CPU_ATTENTION),
                nanos(Component.TRANSFER),
                nanos(Component.PRE_LAYER),
                nanos(Component.POST_LAYER));
        nanos.clear();
        return times;
    }

    private long nanos(Component component) {
        return nanos.getOrDefault(component, 0L);
    }
}
