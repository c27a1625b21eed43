package dev.tandem.app;

import picocli.CommandLine;
import picocli.CommandLine.Command;

/** Groups the commands that measure, under {@code bench}. */
@Command(
        name = "bench",
        mixinStandardHelpOptions = true,
        subcommands = {
            BenchThroughputCommand.class,
            BenchLatencyCommand.class,
            BenchStepsCommand.class,
            BenchKernelsCommand.class,
            BenchAttentionCommand.class,
            BenchServeCommand.class,
            BenchSimulateCommand.class,
            CommandLine.HelpCommand.class
        },
        description = "Measures this machine without HTTP or a server over HTTP, or predicts another machine.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem bench throughput --workload synthetic:128/128 --requests 32 --json",
            "  tandem bench latency --batch-size 8",
            "  tandem bench attention --threads 8",
            "  tandem bench serve --base-url http://127.0.0.1:8000 --request-rate 4",
            "  tandem bench simulate --profile my-profile.txt --preset h200-8sm-2req --workload osc --strategy neo"
        })
final class BenchCommand implements Runnable {
    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Override
    public void run() {
        spec.commandLine().usage(System.out);
    }
}
