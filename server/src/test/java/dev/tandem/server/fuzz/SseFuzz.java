package dev.tandem.server.fuzz;

import dev.tandem.server.http.FakeConnection;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import tools.jackson.databind.ObjectMapper;

/** Fuzz target: a client that follows the server-sent events standard receives exactly the pieces that were sent. */
public final class SseFuzz {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final byte[] REQUEST =
            "GET /stream HTTP/1.0\r\nHost: localhost\r\n\r\n".getBytes(StandardCharsets.US_ASCII);

    private SseFuzz() {}

    public static void fuzzerTestOneInput(byte[] data) {
        List<String> pieces = Arrays.asList(new String(data, StandardCharsets.UTF_8).split("\0"));
        String received;
        try (FakeConnection connection = new FakeConnection(exchange -> {
            exchange.beginEvents();
            for (String piece : pieces) {
                exchange.event(JSON.writeValueAsString(piece));
            }
            exchange.endEvents();
        })) {
            connection.send(REQUEST);
            received = new String(connection.received(), StandardCharsets.UTF_8);
        }
        List<String> read = events(received.substring(received.indexOf("\r\n\r\n") + 4)).stream()
                .map(event -> JSON.readValue(event, String.class))
                .toList();
        if (!read.equals(pieces)) {
            throw new AssertionError("sent " + pieces + " and read " + read);
        }
    }

    /** Lines end with CR, LF or both; an empty line ends an event; the lines of one event are joined. */
    private static List<String> events(String stream) {
        List<String> events = new ArrayList<>();
        List<String> data = new ArrayList<>();
        for (String line : stream.split("\r\n|\r|\n", -1)) {
            if (line.startsWith("data:")) {
                data.add(line.substring(line.startsWith("data: ") ? 6 : 5));
            } else if (line.isEmpty() && !data.isEmpty()) {
                events.add(String.join("\n", data));
                data.clear();
            }
        }
        return events;
    }
}
