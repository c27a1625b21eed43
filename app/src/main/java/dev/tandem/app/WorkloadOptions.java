package dev.tandem.app;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.DecisionLog;
import java.io.PrintStream;
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
