package dev.tandem.app;

import dev.tandem.bench.Workload;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.DecisionLog;
import java.io.PrintStream;
import picocli.CommandLine.Option;

/** Options for the requests of a benchmark, and for explaining its steps. */
@Section(Section.Heading.COMMAND)
final class WorkloadOptions {
    private static final int MAX_EXPLAINED = 10_000;

    @Option(
            names = "--workload",
            paramLabel = "WORKLOAD",
            defaultValue = "synthetic:128/128",
            description = "Lengths of the requests: synthetic:IN/OUT, osc, osc:MEAN_OUT, azure-code, azure-conv or"
                    + " reasoning. Default: ${DEFAULT-VALUE}.")
    String name = "synthetic:128/128";

    @Option(
            names = "--explain",
            description = "Print the decision behind each of the last 10,000 steps, with the alternatives."
                    + " Default: off.")
    boolean explain;

    Workload workload(long seed) {
        return Workload.parse(name, seed);
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
