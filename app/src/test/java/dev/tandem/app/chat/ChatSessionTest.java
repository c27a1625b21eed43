package dev.tandem.app.chat;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.app.config.Secret;
import dev.tandem.engine.config.ConfigurationException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PipedInputStream;
import java.io.PipedOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.jline.terminal.impl.ExternalTerminal;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** Conversations with a stub server: through a pipe, and in a terminal. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class ChatSessionTest {
    private static final String CTRL_C = "\u0003";
    private static final String CTRL_D = "\u0004";

    @TempDir
    Path folder;

    /** What was printed, and a way to wait for it. */
    private static final class Screen extends ByteArrayOutputStream {
        @Override
        public synchronized void write(byte[] bytes, int offset, int length) {
            super.write(bytes, offset, length);
            notifyAll();
        }

        @Override
        public synchronized void write(int b) {
            super.write(b);
            notifyAll();
        }

        /** Waits until the texts were printed, one after the other. */
        synchronized void await(String... texts) throws InterruptedException {
            while (!areThere(texts)) {
                wait();
            }
        }

        private boolean areThere(String... texts) {
            String printed = toString(StandardCharsets.UTF_8);
            int from = 0;
            for (String text : texts) {
                int at = printed.indexOf(text, from);
                if (at < 0) {
                    return false;
                }
                from = at + text.length();
            }
            return true;
        }
    }

    private StubServer server;
    private ChatClient client;
    private final Screen out = new Screen();
    private final ByteArrayOutputStream errors = new ByteArrayOutputStream();

    @BeforeEach
    void start() throws IOException {
        server = new StubServer();
        client = new ChatClient(server.address(), Optional.of(new Secret("key")), Duration.ZERO);
        server.say("Hello", " there");
    }

    @AfterEach
    void end() {
        client.close();
        server.close();
    }

    private boolean piped(String lines) throws InterruptedException {
        PipedTerminal terminal = new PipedTerminal(
                new ByteArrayInputStream(lines.getBytes(StandardCharsets.UTF_8)),
                new PrintStream(out, true, StandardCharsets.UTF_8),
                new PrintStream(errors, true, StandardCharsets.UTF_8));
        return new ChatSession(client, StubServer.MODEL, Optional.of("Be brief."), terminal, System::nanoTime).run();
    }

    private String said() {
        return out.toString(StandardCharsets.UTF_8);
    }

    private static String conversation(JsonNode request) {
        StringBuilder text = new StringBuilder();
        for (JsonNode message : request.path("messages")) {
            text.append(message.path("role").asString())
                    .append(": ")
                    .append(message.path("content").asString())
                    .append('\n');
        }
        return text.toString();
    }

    @Test
    void linesOfAPipeAreAnsweredInOneConversation() throws InterruptedException {
        assertThat(client.model(line -> {})).isEqualTo(StubServer.MODEL);
        assertThat(server.keys).containsExactly("Bearer key");
        assertThat(piped("one 'quote \\ !x\n\n  /two\n")).isTrue();
        assertThat(said()).isEqualTo("Hello there\nHello there\n");
        assertThat(errors.toString(StandardCharsets.UTF_8)).isEmpty();
        assertThat(server.requests).hasSize(2);
        assertThat(server.requests.getFirst().path("stream").asBoolean()).isTrue();
        assertThat(conversation(server.requests.getLast()))
                .isEqualTo("system: Be brief.\nuser: one 'quote \\ !x\nassistant: Hello there\nuser: /two\n");
    }

    @Test
    void quotesHoldSeveralLines() throws InterruptedException {
        piped("\"\"\"first\n\n/clear\nlast\"\"\"\n\"\"\"in one\"\"\"\n\"\"\"\nto the end\n");
        assertThat(server.requests.stream()
                        .map(request ->
                                request.path("messages").path(1).path("content").asString()))
                .containsOnly("first\n\n/clear\nlast");
        assertThat(conversation(server.requests.getLast()))
                .endsWith("user: to the end\n")
                .contains("user: in one\n");
    }

    @Test
    void commandsChangeTheRequests() throws InterruptedException {
        assertThat(piped("""
                /system Speak French.
                /set temperature 0.5
                /set stop "x y"
                /set reasoning_effort low
                /set stop
                one
                /clear
                /system
                two
                /help
                /bye
                three
                """)).isTrue();
        assertThat(server.requests).hasSize(2);
        JsonNode first = server.requests.getFirst();
        assertThat(first.path("temperature").asDouble()).isEqualTo(0.5);
        assertThat(first.path("reasoning_effort").asString()).isEqualTo("low");
        assertThat(first.has("stop")).isFalse();
        assertThat(conversation(server.requests.getLast())).isEqualTo("system: Speak French.\nuser: two\n");
        assertThat(said()).contains("system: Speak French.\n", "The conversation is empty.\n", "/bye  ");
    }

    @Test
    void whatTheServerRefusesIsSaidAndDropped() throws InterruptedException {
        server.refuseOnce(400, "{\"error\": {\"message\": \"temperature must\\nbe 0 or more\"}}");
        assertThat(piped("one\n/nonsense\n/set model x\ntwo\n")).isFalse();
        assertThat(errors.toString(StandardCharsets.UTF_8))
                .isEqualTo("temperature must be 0 or more\n/nonsense is not a command; /help lists them\n"
                        + "model is written by the chat itself; /set takes other fields, such as temperature\n");
        assertThat(conversation(server.requests.getLast())).isEqualTo("system: Be brief.\nuser: two\n");
    }

    private static String loading(String state) {
        return "{\"error\": {\"message\": \"the model is loading\", \"loading\": " + state + "}}";
    }

    @Test
    void theNameOfAModelThatIsBeingLoadedIsWaitedFor() throws InterruptedException {
        List<String> lines = new ArrayList<>();
        server.refuseModelsOnce(503, loading("{\"work\": \"\"}"));
        server.refuseModelsOnce(503, loading("{\"work\": \"loading weights\", \"progress\": 0.41}"));
        server.refuseModelsOnce(503, loading("{\"work\": \"loading weights\", \"progress\": 0.49}"));
        server.refuseModelsOnce(503, loading("{\"work\": \"loading weights\", \"progress\": 1.0}"));
        assertThat(client.model(lines::add)).isEqualTo(StubServer.MODEL);
        assertThat(lines)
                .containsExactly(
                        "the model is loading",
                        "the model is loading: loading weights, 40 %",
                        "the model is loading: loading weights, 100 %");
    }

    @Test
    void aMessageFromBeforeTheModelIsLoadedIsSentAgain() throws InterruptedException {
        server.refuseOnce(503, loading("{\"work\": \"\"}"));
        server.refuseOnce(503, loading("{\"work\": \"loading weights\", \"progress\": 0.5}"));
        assertThat(piped("one\n")).isTrue();
        assertThat(said()).isEqualTo("Hello there\n");
        assertThat(server.requests).hasSize(3);
        assertThat(conversation(server.requests.getLast())).isEqualTo("system: Be brief.\nuser: one\n");
    }

    @Test
    void a503OfAnotherKindIsSaidAtOnce() throws InterruptedException {
        server.refuseOnce(503, "{\"error\": {\"message\": \"64 connections are open; raise --max-connections\"}}");
        server.refuseOnce(503, "a proxy's page");
        assertThat(piped("one\ntwo\n")).isFalse();
        assertThat(errors.toString(StandardCharsets.UTF_8))
                .isEqualTo("64 connections are open; raise --max-connections\nthe server answered 503\n");
        assertThat(server.requests).hasSize(2);
    }

    @Test
    void ctrlCEndsTheWaitForAModel() throws Exception {
        PipedOutputStream keys = new PipedOutputStream();
        try (ChatClient patient = new ChatClient(server.address(), Optional.empty(), Duration.ofDays(1));
                ExternalTerminal external =
                        new ExternalTerminal("test", "ansi", new PipedInputStream(keys), out, StandardCharsets.UTF_8)) {
            server.refuseOnce(503, loading("{\"work\": \"loading weights\", \"progress\": 0.5}"));
            FutureTask<Boolean> chat = new FutureTask<>(() -> {
                try (LineTerminal terminal = new LineTerminal(external, folder.resolve("history"))) {
                    return new ChatSession(patient, "m", Optional.empty(), terminal, System::nanoTime).run();
                }
            });
            Thread.ofVirtual().start(chat);
            type(keys, "one\r");
            out.await("the model is loading: loading weights, 50 %; Ctrl-C stops waiting");
            type(keys, CTRL_C);
            out.await("stopped");
            type(keys, "two\r" + CTRL_D);
            assertThat(chat.get()).isTrue();
        }
        assertThat(conversation(server.requests.getLast())).isEqualTo("user: two\n");
    }

    @Test
    void errorsWithinAStreamAreSaid() throws InterruptedException {
        server.script(
                StubServer.event("content", "Half") + "data: {\"error\": {\"message\": \"the engine stopped\"}}\n\n");
        assertThat(piped("one\n")).isFalse();
        server.script(StubServer.event("content", "Half"));
        assertThat(piped("two\n")).isFalse();
        server.script("data: nonsense\n\n");
        assertThat(piped("three\n")).isFalse();
        assertThat(errors.toString(StandardCharsets.UTF_8))
                .contains("the engine stopped\n", "does not answer", "is it a server with OpenAI's API?");
        assertThat(said()).isEqualTo("Half\nHalf\n");
    }

    @Test
    void anAnswerCannotControlTheTerminal() throws InterruptedException {
        server.say("a\u001b[2Jb\n\tc\r");
        piped("one\n");
        assertThat(said()).isEqualTo("a\\u001b[2Jb\n\tc\\r\n");
    }

    @Test
    void aServerThatIsNotThereIsNamed() {
        server.close();
        assertThatThrownBy(() -> client.model(line -> {}))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining(server.address())
                .hasMessageContaining("tandem serve");
        assertThatThrownBy(() -> new ChatClient("no address", Optional.empty()))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--base-url no address");
    }

    @Test
    void ctrlCStopsTheAnswerAndNotTheChat() throws Exception {
        Path history = folder.resolve("deep/history");
        PipedOutputStream keys = new PipedOutputStream();
        try (ExternalTerminal external =
                new ExternalTerminal("test", "ansi", new PipedInputStream(keys), out, StandardCharsets.UTF_8)) {
            server.begin("Once");
            FutureTask<Boolean> chat = new FutureTask<>(() -> {
                try (LineTerminal terminal = new LineTerminal(external, history)) {
                    return new ChatSession(client, "m", Optional.empty(), terminal, System::nanoTime).run();
                }
            });
            Thread.ofVirtual().start(chat); // nothing waits for it where the test fails
            type(keys, "it's \\ \"one!\r");
            out.await("Once");
            type(keys, CTRL_C);
            server.left.await();
            server.script(StubServer.event("reasoning_content", "Hm") + StubServer.event("content", "Twice")
                    + "data: [DONE]\n\n");
            out.await("stopped", "> "); // before the prompt the terminal echoes keys into what the chat prints
            type(keys, "half a line");
            out.await("half a line"); // Ctrl-C discards what has been read, and not what comes later
            type(keys, CTRL_C + "two\r" + " private\r" + CTRL_D);
            assertThat(chat.get()).isTrue();
        }
        assertThat(conversation(server.requests.getLast()))
                .isEqualTo("user: it's \\ \"one!\nassistant: Once\nuser: two\nassistant: Twice\nuser: private\n");
        assertThat(said())
                .contains("Once", "stopped", "Hm", "Twice", "Ctrl-D or /bye ends the chat.")
                .contains("first token after");
        assertThat(Files.readAllLines(history)).containsExactly("it's \\\\ \"one!", "two");
        assertThat(Files.getPosixFilePermissions(history)).isEqualTo(PosixFilePermissions.fromString("rw-------"));
    }

    private static void type(PipedOutputStream keys, String text) throws IOException {
        keys.write(text.getBytes(StandardCharsets.UTF_8));
        keys.flush();
    }
}
