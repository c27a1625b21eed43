package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Options for the workload of {@code bench throughput}. */
@Section(Section.Heading.COMMAND)
final class ThroughputOptions {
    @Option(
            names = "--requests",
            paramLabel = "NUMBER",
            defaultValue = "32",
            description = "Requests of a run to the end. Default: ${DEFAULT-VALUE}.")
    int requests;

    @Option(
            names = "--steady",
            paramLabel = "SECONDS",
            description = "Measure a window of this many seconds in place of a run to the end. Requests fill both"
                    + " pools; the first begin in the middle of their output, so that long ones need not end before a"
                    + " window is representative. Default: a run.")
    Optional<Integer> steady = Optional.empty();

    @Option(
            names = "--warm-up",
            paramLabel = "SECONDS",
            defaultValue = "5",
            description = "Seconds between submitting the first requests and the window; with --steady it must be long"
                    + " enough to prefill them. Default: ${DEFAULT-VALUE}.")
    int warmUp;

    /** @throws ConfigurationException that names the options, their values and the limit */
    void check() {
        if (requests < 1 || steady.orElse(1) < 1 || warmUp < 0) {
            throw new ConfigurationException("--requests " + requests
                    + steady.map(seconds -> ", --steady " + seconds).orElse("")
                    + " and --warm-up " + warmUp + ": they must be at least 1, --warm-up at least 0");
        }
    }
}
