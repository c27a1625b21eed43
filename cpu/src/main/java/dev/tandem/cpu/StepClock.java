package dev.tandem.cpu;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.Component;
import dev.tandem.engine.step.StepTimes;
import java.util.Arrays;

/**
 * Adds up the time that a step spends in each cost component.
 *
 * <p>Owned by: engine thread.
 */
final class StepClock {
    private final Clock clock;
    private final long[] nanos = new long[Component.values().length];

    StepClock(Clock clock) {
        this.clock = clock;
    }

    /** Runs the work and adds the time it took, in nanoseconds, to the component. */
    void measure(Component component, Runnable work) {
        long begin = clock.nanos();
        work.run();
        nanos[component.ordinal()] += clock.nanos() - begin;
    }

    /** Returns the sums and sets them to zero. */
    StepTimes take() {
        StepTimes times = new StepTimes(
                nanos[Component.LINEAR.ordinal()],
                nanos[Component.PREFILL_ATTENTION.ordinal()],
                nanos[Component.GPU_ATTENTION.ordinal()],
                nanos[Component.CPU_ATTENTION.ordinal()],
                nanos[Component.TRANSFER.ordinal()],
                nanos[Component.PRE_LAYER.ordinal()],
                nanos[Component.POST_LAYER.ordinal()]);
        Arrays.fill(nanos, 0);
        return times;
    }
}
