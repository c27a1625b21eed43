package dev.tandem.app;

import dev.tandem.engine.execute.Executor;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * An executor and what the commands ask of it besides running plans.
 *
 * @param model its name
 * @param weightBytes that a decoding step reads
 * @param contextTokens longest sequence
 * @param profileName what a profile measured on it is good for
 * @param gpuTime milliseconds the GPU worked in steps and waited between them, since the start; empty on the CPU
 */
record Backend(
        Executor executor, String model, long weightBytes, int contextTokens, String profileName, Optional<Supplier<double[]>> gpuTime) {}
