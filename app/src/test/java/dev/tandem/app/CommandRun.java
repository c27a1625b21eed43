package dev.tandem.app;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** A command that ran in the test's own JVM, with what it printed. */
record CommandRun(int status, String out, String errors) {
    static CommandRun of(String... args) {
        return of(System.getenv(), args);
    }

    static CommandRun of(Map<String, String> environment, String... args) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        try {
            int status = Main.execute(environment, args);
            return new CommandRun(
                    status, said.toString(StandardCharsets.UTF_8), errors.toString(StandardCharsets.UTF_8));
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
    }

    /** The one JSON object of the output. */
    JsonNode json() {
        return new ObjectMapper().readTree(out);
    }

    /** The JSON objects of the output, one per line. */
    List<JsonNode> jsonLines() {
        return out.strip().lines().map(new ObjectMapper()::readTree).toList();
    }
}
