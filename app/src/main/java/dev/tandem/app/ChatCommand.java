package dev.tandem.app;

import dev.tandem.app.chat.ChatClient;
import dev.tandem.app.chat.ChatSession;
import dev.tandem.app.chat.ChatTerminal;
import dev.tandem.app.chat.LineTerminal;
import dev.tandem.app.chat.PipedTerminal;
import dev.tandem.app.config.Secret;
import dev.tandem.engine.clock.Clock;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Runs {@code chat}: a conversation with a running server, or with one of its own on the loopback address. */
@Section(Section.Heading.COMMAND)
@Command(
        name = "chat",
        mixinStandardHelpOptions = true,
        description = "Talks with a model in the terminal. Without --base-url it loads the model, and serves it to"
                + " itself alone. Ctrl-C stops an answer, Ctrl-D ends; /help lists the commands. Lines of a pipe are"
                + " answered one by one.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem chat                                    the default model",
            "  tandem chat my-model/ --system 'Answer in French.'",
            "  tandem chat --base-url http://127.0.0.1:8000   a running server",
            "  echo 'What is the capital of France?' | tandem chat"
        })
final class ChatCommand implements Callable<Integer> {
    private static final int KEY_BYTES = 32;

    @Mixin
    ModelOptions options = new ModelOptions();

    @Option(
            names = "--base-url",
            paramLabel = "URL",
            description = "Address of a running server with OpenAI's API; MODEL is then a name that it serves, or its"
                    + " first model where none is named. Default: none, the model is loaded here.")
    Optional<String> baseUrl = Optional.empty();

    @Option(
            names = "--api-key",
            paramLabel = "KEY",
            converter = Secret.Converter.class,
            description = "Key of the server of --base-url. Default: the variable TANDEM_API_KEY; without it none is"
                    + " sent.")
    Optional<Secret> apiKey = Optional.empty();

    @Option(names = "--system", paramLabel = "TEXT", description = "The system prompt. Default: none.")
    Optional<String> system = Optional.empty();

    @Override
    public Integer call() throws InterruptedException {
        // before the model is loaded: opening asks the terminal what it can do, and drops what was typed until then
        try (ChatTerminal terminal = terminal()) {
            return baseUrl.isPresent() ? withServer(baseUrl.get(), terminal) : withOwnServer(terminal);
        }
    }

    private int withServer(String address, ChatTerminal terminal) throws InterruptedException {
        try (ChatClient client = new ChatClient(address, apiKey)) {
            return talk(
                    client,
                    options.model().isPresent() ? options.model().get() : client.model(terminal::note),
                    terminal);
        }
    }

    private int withOwnServer(ChatTerminal terminal) throws InterruptedException {
        byte[] key = new byte[KEY_BYTES];
        new SecureRandom().nextBytes(key);
        Secret own = new Secret(HexFormat.of().formatHex(key)); // other users of this machine reach the port, too
        try (ServeCommand.Serving serving =
                        ServeCommand.onLoopback(options, own).start();
                ChatClient client =
                        new ChatClient("http://127.0.0.1:" + serving.server().port(), Optional.of(own))) {
            return talk(client, serving.name(), terminal);
        }
    }

    private int talk(ChatClient client, String model, ChatTerminal terminal) throws InterruptedException {
        return new ChatSession(client, model, system, terminal, Clock.system()).run() ? ExitCode.OK : ExitCode.FAILED;
    }

    private static ChatTerminal terminal() {
        Path cache = DefaultModel.cache(System.getenv(), Path.of(System.getProperty("user.home")));
        return System.console() != null && System.console().isTerminal()
                ? LineTerminal.ofProcess(cache.resolve("chat-history"))
                : new PipedTerminal(System.in, System.out, System.err);
    }
}
