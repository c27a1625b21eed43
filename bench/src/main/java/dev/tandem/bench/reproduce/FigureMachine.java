package dev.tandem.bench.reproduce;

import dev.tandem.bench.Recorder;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.loop.Engine;
import java.util.Optional;

/**
 * The machine at hand, on which figures are executed.
 *
 * <p>Owned by: the thread that runs the figures.
 */
public interface FigureMachine {
    /** An engine that runs; closing it frees the model. */
    interface RunningEngine extends AutoCloseable {
        Engine engine();

        @Override
        void close();
    }

    /** Value of {@code --on}. */
    String flag();

    /** Name of the GPU, if it computes, and of the CPU. */
    String describe();

    /** The reason why this machine cannot run such an engine, with the limit; empty when it can. */
    Optional<String> obstacle(EngineSetting setting);

    /**
     * Loads the model with random weights and starts an engine.
     *
     * @param recorder receives its events
     */
    RunningEngine start(EngineSetting setting, Recorder recorder);

    /** Measures this machine with the model of a panel. No engine may run meanwhile. */
    Profile profile(EngineSetting setting);
}
