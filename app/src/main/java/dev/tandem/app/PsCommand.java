package dev.tandem.app;

import java.net.http.HttpClient;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Runs {@code ps}: shows the requests of a running server. */
@Command(
        name = "ps",
        mixinStandardHelpOptions = true,
        description = "Lists the requests of a running server: who runs, who waits, where and why.",
        footerHeading = "%nExamples:%n",
        footer = {"  tandem ps", "  tandem ps --base-url http://127.0.0.1:9000"})
final class PsCommand implements Callable<Integer> {
    @Mixin
    RunningServerOptions server = new RunningServerOptions();

    @Override
    public Integer call() throws InterruptedException {
        try (HttpClient http = HttpClient.newHttpClient()) {
            EngineText.requests(server.engine(http)).forEach(System.out::println);
        }
        return ExitCode.OK;
    }
}
