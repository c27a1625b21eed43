package dev.tandem.app.chat;

import dev.tandem.engine.clock.Clock;
import dev.tandem.server.http.Printable;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * A conversation and its commands.
 *
 * <p>Owned by: the main thread.
 */
public final class ChatSession {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String PROMPT = "> ";
    private static final String MORE = "... ";
    private static final String QUOTES = "\"\"\"";
    /** Fields of a request that the conversation itself writes. */
    private static final Set<String> OWN_FIELDS = Set.of("model", "messages", "stream", "stream_options");

    private static final List<String> HELP = List.of(
            "/system [TEXT]      set the system prompt, or show it",
            "/set [NAME [VALUE]] set a field of requests, such as temperature 0.7; without a value, drop it",
            "/clear              forget the conversation; the system prompt and fields stay",
            "/help               this list",
            "/bye                end, as Ctrl-D does",
            QUOTES + "                 begin and end a message of several lines",
            "Ctrl-C              stop the answer",
            "A message that begins with / is written with a blank in front.");

    private record Message(String role, String content) {}

    private final ChatClient client;
    private final String model;
    private final ChatTerminal terminal;
    private final Clock clock;
    private final List<Message> messages = new ArrayList<>();
    private final ObjectNode fields = JSON.createObjectNode();
    private Optional<String> system;
    private boolean failed;

    public ChatSession(ChatClient client, String model, Optional<String> system, ChatTerminal terminal, Clock clock) {
        this.client = client;
        this.model = model;
        this.system = system;
        this.terminal = terminal;
        this.clock = clock;
    }

    /** Reads and answers until the end; returns whether every message was answered. */
    public boolean run() throws InterruptedException {
        terminal.note(Printable.escape(model) + "; /help lists the commands, Ctrl-D ends");
        while (true) {
            switch (terminal.read(PROMPT)) {
                case ChatTerminal.Input.End _ -> {
                    return !failed;
                }
                case ChatTerminal.Input.Interrupted _ -> terminal.note("Ctrl-D or /bye ends the chat.");
                case ChatTerminal.Input.Line(String line) -> {
                    if (line.strip().equals("/bye")) {
                        return !failed;
                    }
                    take(line);
                }
            }
        }
    }

    private void take(String line) throws InterruptedException {
        if (line.startsWith("/")) {
            command(line.strip());
            return;
        }
        Optional<String> message = line.strip().startsWith(QUOTES) ? several(line.strip()) : Optional.of(line.strip());
        if (message.isPresent() && !message.get().isBlank()) {
            answer(message.get());
        }
    }

    /** Reads on to the closing quotes; empty after Ctrl-C. */
    private Optional<String> several(String first) {
        StringBuilder text = new StringBuilder(first.substring(QUOTES.length()));
        while (!text.toString().stripTrailing().endsWith(QUOTES)) {
            switch (terminal.read(MORE)) {
                case ChatTerminal.Input.Line(String line) ->
                    text.append(text.isEmpty() ? "" : "\n").append(line);
                case ChatTerminal.Input.Interrupted _ -> {
                    return Optional.empty();
                }
                case ChatTerminal.Input.End _ -> {
                    return Optional.of(text.toString());
                }
            }
        }
        String all = text.toString().stripTrailing();
        return Optional.of(all.substring(0, all.length() - QUOTES.length()).strip());
    }

    private void command(String line) {
        String[] words = line.split("\\s+", 2);
        String argument = words.length > 1 ? words[1] : "";
        switch (words[0]) {
            case "/system" -> {
                if (!argument.isEmpty()) {
                    system = Optional.of(argument);
                }
                terminal.say("system: " + system.map(Printable::escape).orElse("none"));
            }
            case "/set" -> set(argument);
            case "/clear" -> {
                messages.clear();
                terminal.say("The conversation is empty.");
            }
            case "/help" -> HELP.forEach(terminal::say);
            default -> {
                failed = true;
                terminal.error(Printable.of(words[0]) + " is not a command; /help lists them");
            }
        }
    }

    private void set(String argument) {
        String[] words = argument.split("\\s+", 2);
        String name = words[0];
        if (OWN_FIELDS.contains(name)) {
            failed = true;
            terminal.error(name + " is written by the chat itself; /set takes other fields, such as temperature");
        } else if (words.length > 1) {
            fields.set(name, value(words[1]));
        } else {
            fields.remove(name);
        }
        fields.properties().forEach(field -> terminal.say(Printable.escape(field.getKey() + " " + field.getValue())));
    }

    /** JSON where it is, else text. */
    private static JsonNode value(String text) {
        try {
            return JSON.readTree(text);
        } catch (JacksonException e) {
            return JSON.getNodeFactory().stringNode(text);
        }
    }

    private ObjectNode body() {
        ObjectNode body = fields.deepCopy();
        body.put("model", model);
        body.put("stream", true);
        body.putObject("stream_options").put("include_usage", true);
        var list = body.putArray("messages");
        system.ifPresent(text -> list.addObject().put("role", "system").put("content", text));
        messages.forEach(message -> list.addObject().put("role", message.role()).put("content", message.content()));
        return body;
    }

    /** Asks for an answer and prints it. A message without an answer is dropped, so that it can be sent again. */
    private void answer(String message) throws InterruptedException {
        messages.add(new Message("user", message));
        Printed printed = new Printed();
        Answer answer = client.ask(body());
        Answer.End end;
        try (ChatTerminal.Interrupts _ = terminal.onInterrupt(answer::stop)) {
            end = answer.read(printed);
        }
        if (printed.any) {
            terminal.endAnswer();
        }
        switch (end) {
            case Answer.End.Complete(int tokens) -> terminal.note(printed.speed(tokens));
            case Answer.End.Stopped _ -> terminal.note("stopped");
            case Answer.End.Failed(String why) -> {
                failed = true;
                terminal.error(Printable.oneLine(why));
            }
        }
        if (printed.text.isEmpty()) {
            messages.removeLast();
        } else {
            messages.add(new Message("assistant", printed.text.toString()));
        }
    }

    /** What was printed of an answer. */
    private final class Printed implements Answer.Reader {
        private final StringBuilder text = new StringBuilder();
        private boolean any;
        private boolean reasoned;
        private long sentNanos;
        private long firstNanos;

        @Override
        public void reasoning(String part) {
            begin();
            reasoned = true;
            terminal.reasoning(visible(part));
        }

        @Override
        public void text(String part) {
            begin();
            if (reasoned && text.isEmpty()) {
                terminal.reasoning("\n\n");
            }
            text.append(part);
            terminal.answer(visible(part));
        }

        private void begin() {
            if (!any) {
                any = true;
                firstNanos = clock.nanos();
            }
        }

        @Override
        public void loading(String line) {
            terminal.note(line + "; Ctrl-C stops waiting");
        }

        @Override
        public void sent() {
            sentNanos = clock.nanos(); // loading is no time of the answer
            firstNanos = sentNanos;
        }

        String speed(int tokens) {
            double seconds = (clock.nanos() - firstNanos) / 1e9;
            return String.format(
                    Locale.ROOT,
                    "first token after %.0f ms, %d tokens%s",
                    (firstNanos - sentNanos) / 1e6,
                    tokens,
                    tokens > 1 && seconds > 0
                            ? String.format(Locale.ROOT, " at %.1f per second", (tokens - 1) / seconds)
                            : "");
        }
    }

    /** The text without what controls a terminal; line breaks and tabs stay. */
    private static String visible(String text) {
        StringBuilder shown = new StringBuilder();
        text.codePoints().forEach(c -> {
            boolean control = Character.getType(c) == Character.CONTROL && c != '\n' && c != '\t';
            shown.append(control ? Printable.escape(Character.toString(c)) : Character.toString(c));
        });
        return shown.toString();
    }
}
