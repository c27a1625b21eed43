package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import picocli.CommandLine.Option;

/** Options for the steps that {@code bench steps} measures. */
@Section(Section.Heading.COMMAND)
final class StepOptions {
    @Option(
            names = "--batch",
            split = ",",
            paramLabel = "TOKENS",
            defaultValue = "1,24,64,256",
            description = "Tokens per decode step, for one step after another. Default: ${DEFAULT-VALUE}.")
    List<Integer> batches = List.of();

    @Option(
            names = "--context",
            paramLabel = "TOKENS",
            defaultValue = "1000",
            description = "KV tokens of each. Default: ${DEFAULT-VALUE}.")
    int context;

    @Option(
            names = "--prefill",
            split = ",",
            paramLabel = "TOKENS",
            description = "Also measure prompts of these lengths, each in a step of its own. Default: none.")
    List<Integer> prompts = List.of();

    @Option(
            names = "--slots",
            paramLabel = "NUMBER",
            defaultValue = "0",
            description = "Empty slots for in-flight tokens in each decode step, with a strategy that has slots."
                    + " Default: ${DEFAULT-VALUE}.")
    int slots;

    @Option(
            names = "--piggybacked",
            paramLabel = "TOKENS",
            defaultValue = "0",
            description = "Prompt tokens that each decode step computes as well, at the end of a prompt."
                    + " Default: ${DEFAULT-VALUE}.")
    int piggybacked;

    @Option(
            names = "--rounds",
            paramLabel = "NUMBER",
            defaultValue = "21",
            description = "Replays per step; the result is their median. Default: ${DEFAULT-VALUE}.")
    int rounds;

    /** @throws ConfigurationException that names the options, their values and the limit */
    void check() {
        if (rounds < 1
                || batches.stream().anyMatch(tokens -> tokens < 1)
                || prompts.stream().anyMatch(tokens -> tokens < 1)
                || context < 1) {
            throw new ConfigurationException("--batch " + batches + ", --context " + context + ", --prefill " + prompts
                    + " and --rounds "
                    + rounds + ": each number must be at least 1");
        }
    }

    /** @throws ConfigurationException when the executor has fewer slots */
    void check(ExecutorLimits limits, Strategy strategy) {
        if (slots < 0 || slots > limits.slotsPerLayer() || piggybacked < 0) {
            throw new ConfigurationException("--slots " + slots + " and --piggybacked " + piggybacked
                    + " must be 0 or more, and slots at most " + limits.slotsPerLayer() + " under --strategy "
                    + strategy.flag());
        }
    }
}
