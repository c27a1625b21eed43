package dev.tandem.app;

import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.Executor;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * An executor and what the commands ask of it besides running plans.
 *
 * @param model its name
 * @param weightBytes that a decoding step reads
 * @param contextTokens longest sequence
 * @param profileName what a profile measured on it is good for
 * @param profiler measures a profile of this name; nothing else may use the executor meanwhile
 * @param gpuTime milliseconds the GPU worked in steps and waited between them, since the start; empty on the CPU
 */
record Backend(
        Executor executor,
        String model,
        long weightBytes,
        int contextTokens,
        String profileName,
        Function<String, Profile> profiler,
        Optional<Supplier<double[]>> gpuTime) {}
