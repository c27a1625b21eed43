package dev.tandem.app;

import dev.tandem.bench.Workload;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.DecisionLog;
import java.io.PrintStream;
import picocli.CommandLine.Option;

/** What a benchmark of the engine runs, and whether it says why. */
final class WorkloadOptions {
    private static final int MAX_EXPLAINED = 10_000;

    @Option(
            names = "--workload",
            paramLabel = "WORKLOAD",
            defaultValue = "synthetic:128/128",
            description =
                    "synthetic:IN/OUT, osc, osc:MEAN_OUT, azure-code, azure-conv or reasoning (${DEFAULT-VALUE}).")
    String name;

    @Option(
            names = "--explain",
            description = "Say why each of the last steps was as it was, and what else was considered.")
    boolean explain;

    Workload workload(long seed) {
        return Workload.parse(name, seed);
    }

    /** The last decisions, where that was asked for. */
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
