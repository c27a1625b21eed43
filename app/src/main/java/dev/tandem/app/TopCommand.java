package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import java.net.http.HttpClient;
import java.time.Duration;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Runs {@code top}: shows the engine of a running server again and again. */
@Command(
        name = "top",
        mixinStandardHelpOptions = true,
        description =
                "Shows both tiers of a running server live: KV, queue, rates, latencies, strategy. Ctrl-C ends it.",
        footerHeading = "%nExamples:%n",
        footer = {"  tandem top", "  tandem top --interval 5 --count 12 > a-minute.txt"})
final class TopCommand implements Callable<Integer> {
    /** Moves to the first line and column, and clears from there to the end of the screen. */
    private static final String CLEAR = "\u001b[H\u001b[J";

    @Mixin
    RunningServerOptions server = new RunningServerOptions();

    @Option(
            names = "--interval",
            paramLabel = "SECONDS",
            defaultValue = "1",
            description = "Seconds between two views. Default: ${DEFAULT-VALUE}.")
    int interval = 1;

    @Option(
            names = "--count",
            paramLabel = "NUMBER",
            defaultValue = "0",
            description = "Number of views; 0 goes on until Ctrl-C. Default: ${DEFAULT-VALUE}.")
    int count;

    @Override
    public Integer call() throws InterruptedException {
        if (interval < 1) {
            throw new ConfigurationException("--interval " + interval + " must be at least 1 second");
        }
        if (count < 0) {
            throw new ConfigurationException("--count " + count + " must be 0 or more views; 0 goes on until Ctrl-C");
        }
        boolean terminal = System.console() != null && System.console().isTerminal();
        try (HttpClient http = HttpClient.newHttpClient()) {
            for (int view = 0; count == 0 || view < count; view++) {
                if (view > 0) {
                    Thread.sleep(Duration.ofSeconds(interval));
                }
                String text = String.join("\n", EngineText.summary(server.engine(http)));
                System.out.println((terminal ? CLEAR : "") + text + (terminal ? "" : "\n"));
            }
        }
        return ExitCode.OK;
    }
}
