package dev.tandem.app;

import dev.tandem.bench.FirstRequests;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.DecisionLog;
import java.io.PrintStream;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Options for the requests of a benchmark whose steps can be explained. */
@Section(Section.Heading.COMMAND)
final class WorkloadOptions extends WorkloadName {
    private static final int MAX_EXPLAINED = 10_000;

    @Option(
            names = "--explain",
            description = "Print the decision behind each of the last 10,000 steps, with the alternatives."
                    + " Default: off.")
    boolean explain;

    @Option(
            names = "--in-progress",
            paramLabel = "REQUESTS",
            description = "How many of the requests that fill a window's loop begin in the middle of their output, the"
                    + " first ones. The others begin with their prompt, as new requests that find the pool full."
                    + " Default: all.")
    Optional<Integer> inProgress = Optional.empty();

    /**
     * The start of a loop.
     *
     * @param count requests of the loop; where fewer than {@code --in-progress}, all are in progress
     */
    FirstRequests first(int count) {
        return new FirstRequests(count, Math.min(count, inProgress.orElse(count)));
    }

    /**
     * Checks {@code --in-progress}.
     *
     * @param loop whether the benchmark is a steady window, the only one that begins with a loop's requests
     * @throws ConfigurationException that names the option, its value and the limit
     */
    void check(boolean loop) {
        inProgress.ifPresent(count -> {
            if (count < 0) {
                throw new ConfigurationException("--in-progress " + count + " must be 0 or more");
            }
            if (!loop) {
                throw new ConfigurationException("--in-progress " + count + " needs a steady window; leave it out, or"
                        + " use --steady without --requests and --request-rate");
            }
        });
    }

    /** Prints the last decisions, if the option asks for them. */
    void explain(DecisionLog decisions, PrintStream out) {
        if (explain) {
            decisions.last(MAX_EXPLAINED).forEach(decision -> explain(decision, out));
        }
    }

    private static void explain(Decision decision, PrintStream out) {
        out.println(decision);
        decision.candidates().forEach(candidate -> out.println("    " + candidate));
    }
}
