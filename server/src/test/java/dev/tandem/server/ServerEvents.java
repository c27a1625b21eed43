package dev.tandem.server;

import java.util.ArrayList;
import java.util.List;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Reads a stream of server-sent events that have names. */
final class ServerEvents {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** @param name empty when the event has none */
    record Event(String name, JsonNode data) {}

    private ServerEvents() {}

    static List<Event> of(String body) {
        List<Event> events = new ArrayList<>();
        for (String block : body.split("\n\n")) {
            String name = "";
            String data = "";
            for (String line : block.split("\n")) {
                if (line.startsWith("event: ")) {
                    name = line.substring("event: ".length());
                } else if (line.startsWith("data: ")) {
                    data = line.substring("data: ".length());
                }
            }
            events.add(new Event(name, JSON.readTree(data)));
        }
        return events;
    }

    static List<String> names(List<Event> events) {
        return events.stream().map(Event::name).toList();
    }
}
