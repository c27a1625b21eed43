package dev.tandem.app;

import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.Executor;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * An executor, with the facts about it that commands need.
 *
 * @param model name of the model
 * @param weightBytes bytes of weights that a decode step reads
 * @param contextTokens max tokens of a sequence
 * @param threads that the executor keeps busy on the host while it computes
 * @param profileName machine, model and options for which a profile of this executor is valid
 * @param profiler measures a profile of this name; nothing else may use the executor during that time
 * @param gpuTime milliseconds since the start in which the GPU was busy and idle; empty on the CPU
 */
record Backend(
        Executor executor,
        String model,
        long weightBytes,
        int contextTokens,
        int threads,
        String profileName,
        Function<String, Profile> profiler,
        Optional<Supplier<double[]>> gpuTime) {}
