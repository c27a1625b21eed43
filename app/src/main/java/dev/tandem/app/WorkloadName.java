package dev.tandem.app;

import dev.tandem.bench.Workload;
import picocli.CommandLine.Option;

/** The option that names the requests of a benchmark. */
@Section(Section.Heading.COMMAND)
class WorkloadName {
    @Option(
            names = "--workload",
            paramLabel = "WORKLOAD",
            defaultValue = "synthetic:128/128",
            description = "Lengths of the requests: synthetic:IN/OUT, prefix:SHARED/OWN/OUT[/TURNS], osc,"
                    + " osc:MEAN_OUT, azure-code, azure-conv or reasoning. With prefix, all prompts begin with the same"
                    + " SHARED tokens; with TURNS, each begins a conversation in which a turn repeats all before it and"
                    + " adds OWN tokens. Default: ${DEFAULT-VALUE}.")
    String name = "synthetic:128/128";

    Workload workload(long seed) {
        return Workload.parse(name, seed);
    }
}
