package dev.tandem.app;

import java.util.stream.Stream;

/**
 * {@code tandem serve} within the test's JVM, with the default model on a free port. A class that starts many servers
 * loads and compiles Tandem's code once.
 */
final class LocalServer extends ServerClient {
    private final ServeCommand.Serving serving;

    LocalServer(String... options) {
        ServeCommand.Serving started = start(options);
        super("http://127.0.0.1:" + started.server().port());
        serving = started;
    }

    private static ServeCommand.Serving start(String... options) {
        String[] arguments = Stream.concat(Stream.of("serve", "--port", "0"), Stream.of(options))
                .toArray(String[]::new);
        ServeCommand command = (ServeCommand)
                Main.command().parseArgs(arguments).subcommand().commandSpec().userObject();
        return command.start();
    }

    @Override
    void end() {
        serving.close();
    }
}
