package dev.tandem.text.answer;

import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * Reads one call written as {@code {"name": ..., "arguments": {...}}}, or with {@code parameters}, as Llama 3 has it.
 * The arguments are passed on as soon as the name is known. The object's own braces may be doubled: the template of
 * Qwen2.5 Coder shows {@code {{"name": ..., "arguments": ...}}}, and the model copies that.
 *
 * <p>Owned by: one stage.
 */
final class CallObject {
    enum Status {
        MORE,
        /** This character ends the object. */
        DONE,
        /** This character does not belong to a call. */
        BROKEN
    }

    private enum State {
        START,
        FIRST_KEY,
        NEXT_KEY,
        KEY,
        COLON,
        VALUE,
        AFTER_VALUE,
        /** After the first of two braces at the end. */
        LAST_BRACE
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Set<String> ARGUMENTS = Set.of("arguments", "parameters");
    /** What else models write into a call. */
    private static final Set<String> OTHER_KEYS = Set.of("type", "id");

    private final PartBuffer parts;
    private final Predicate<String> isTool;
    private final boolean marked;
    private final StringBuilder text = new StringBuilder();
    private JsonScanner scanner = new JsonScanner();
    private State state = State.START;
    private String key = "";
    private Optional<String> name = Optional.empty();
    /** Arguments that came before the name. */
    private Optional<String> early = Optional.empty();

    private boolean started;
    private boolean streaming;
    private boolean complete;
    private boolean doubled;

    /**
     * A call that a marker announces: any name and any further keys are taken.
     *
     * @param parts receives the call
     */
    static CallObject marked(PartBuffer parts) {
        return new CallObject(parts, name -> true, true);
    }

    /** A call that could as well be an answer in JSON: its name must be a tool's, and it has no other keys. */
    static CallObject unmarked(PartBuffer parts, Predicate<String> isTool) {
        return new CallObject(parts, isTool, false);
    }

    private CallObject(PartBuffer parts, Predicate<String> isTool, boolean marked) {
        this.parts = parts;
        this.isTool = isTool;
        this.marked = marked;
    }

    /** Whether the name has been passed on, so that the call can no longer become content. */
    boolean isStarted() {
        return started;
    }

    /** Whether all arguments have been passed on. */
    boolean isComplete() {
        return complete;
    }

    Status next(char c) {
        boolean space = Character.isWhitespace(c);
        return switch (state) {
            case START -> space ? Status.MORE : c == '{' ? to(State.FIRST_KEY) : Status.BROKEN;
            case FIRST_KEY -> space ? Status.MORE : c == '}' ? end() : c == '{' && !doubled ? twice() : beginKey(c);
            case NEXT_KEY -> space ? Status.MORE : beginKey(c);
            case KEY -> key(c);
            case COLON -> space ? Status.MORE : c == ':' ? beginValue() : Status.BROKEN;
            case VALUE -> space && text.isEmpty() && !streaming ? Status.MORE : value(c);
            case AFTER_VALUE -> space ? Status.MORE : c == ',' ? to(State.NEXT_KEY) : c == '}' ? end() : Status.BROKEN;
            case LAST_BRACE -> space ? Status.MORE : c == '}' ? Status.DONE : Status.BROKEN;
        };
    }

    private Status to(State next) {
        state = next;
        return Status.MORE;
    }

    private Status twice() {
        doubled = true;
        return Status.MORE;
    }

    private Status beginKey(char c) {
        scanner = new JsonScanner();
        text.setLength(0);
        state = State.KEY;
        return c == '"' ? key(c) : Status.BROKEN;
    }

    private Status key(char c) {
        text.append(c);
        switch (scanner.next(c)) {
            case MORE -> {
                return Status.MORE;
            }
            case LAST -> {
                Optional<String> decoded = decode();
                if (decoded.isEmpty()) {
                    return Status.BROKEN;
                }
                key = decoded.get();
                boolean known = key.equals("name") || ARGUMENTS.contains(key) || OTHER_KEYS.contains(key);
                return known || marked ? to(State.COLON) : Status.BROKEN;
            }
            case BEYOND, BROKEN -> {
                return Status.BROKEN;
            }
        }
        throw new IllegalStateException("unreachable");
    }

    private Status beginValue() {
        scanner = new JsonScanner();
        text.setLength(0);
        return to(State.VALUE);
    }

    private Status value(char c) {
        if (text.isEmpty() && !streaming && c == '{' && ARGUMENTS.contains(key) && name.isPresent() && !complete) {
            streaming = true;
            start();
        }
        JsonScanner.Status status = scanner.next(c);
        switch (status) {
            case MORE, LAST -> {
                if (streaming) {
                    parts.arguments(c);
                } else {
                    text.append(c);
                }
                return status == JsonScanner.Status.MORE || endValue() ? Status.MORE : Status.BROKEN;
            }
            case BEYOND -> {
                return endValue() ? next(c) : Status.BROKEN;
            }
            case BROKEN -> {
                return Status.BROKEN;
            }
        }
        throw new IllegalStateException("unreachable");
    }

    /** False when the value cannot belong to a call. */
    private boolean endValue() {
        state = State.AFTER_VALUE;
        if (streaming) {
            streaming = false;
            complete = true;
        } else if (key.equals("name") && name.isEmpty()) {
            name = decode().filter(text -> !text.isBlank() && isTool.test(text));
            return name.isPresent();
        } else if (ARGUMENTS.contains(key) && early.isEmpty() && !complete) {
            early = argumentsOf(text.toString());
            return early.isPresent();
        }
        return true;
    }

    /** The name precedes everything else of a call. */
    private void start() {
        started = true;
        parts.call(name.orElseThrow());
    }

    private Status end() {
        if (name.isEmpty()) {
            return Status.BROKEN;
        }
        if (!started) {
            start();
            early.ifPresent(parts::arguments);
            parts.endCall();
            complete = true;
        }
        return doubled ? to(State.LAST_BRACE) : Status.DONE;
    }

    /** The JSON string in {@link #text}. */
    private Optional<String> decode() {
        return parse(text.toString()).filter(JsonNode::isString).map(JsonNode::asString);
    }

    private static Optional<JsonNode> parse(String json) {
        try {
            return Optional.of(JSON.readTree(json));
        } catch (JacksonException e) {
            return Optional.empty();
        }
    }

    /** Some models write the object as a string, and null for no arguments. */
    private static Optional<String> argumentsOf(String value) {
        if (value.startsWith("{")) {
            return Optional.of(value);
        }
        return parse(value)
                .filter(node -> node.isNull() || node.isString())
                .map(node -> node.asString("").strip())
                .map(text -> text.isEmpty() ? "{}" : text)
                .filter(text -> text.startsWith("{"));
    }
}
