package dev.tandem.engine.observe;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import jdk.jfr.Event;
import jdk.jfr.EventType;
import jdk.jfr.ValueDescriptor;
import org.junit.jupiter.api.Test;

/** Checks that the page of recorder events shows their classes; {@code -Dtandem.docs.write=true} writes it. */
class RecorderEventsPageTest {
    private static final Path PAGE = Path.of("../docs/reference/recorder-events.md");
    private static final List<String> EVENTS = List.of(
            "dev.tandem.engine.observe.StepEvent",
            "dev.tandem.engine.schedule.KvMoveEvent",
            "dev.tandem.engine.strategy.select.PhaseEvent");
    /** Fields that the recorder gives every event. */
    private static final Set<String> OF_ALL = Set.of("startTime", "duration", "eventThread", "stackTrace");

    @Test
    void pageShowsTheEvents() throws IOException, ClassNotFoundException {
        String page = page();
        if (Boolean.getBoolean("tandem.docs.write")) {
            Files.writeString(PAGE, page);
        }
        assertThat(Files.readString(PAGE))
                .as("run this test with -Dtandem.docs.write=true")
                .isEqualTo(page);
    }

    private static String page() throws ClassNotFoundException {
        StringBuilder page = new StringBuilder("""
                # JFR events

                This page is written from the event classes by a test; do not edit it.

                Every event also has a start time, a duration and the engine's thread.
                [The guide](../guide/metrics.md) shows how to record and read them.
                """);
        for (String name : EVENTS) {
            EventType type = EventType.getEventType(Class.forName(name).asSubclass(Event.class));
            page.append("\n## `")
                    .append(type.getName())
                    .append("`\n\n")
                    .append(type.getDescription())
                    .append("\n\n| field | type | meaning |\n| --- | --- | --- |\n")
                    .append(type.getFields().stream()
                            .filter(field -> !OF_ALL.contains(field.getName()))
                            .map(RecorderEventsPageTest::row)
                            .collect(Collectors.joining()));
        }
        return page.toString();
    }

    private static String row(ValueDescriptor field) {
        String type = field.getContentType() == null
                ? field.getTypeName().replace("java.lang.", "")
                : field.getContentType().replace("jdk.jfr.", "");
        return "| `" + field.getName() + "` | " + type + " | " + field.getDescription() + " |\n";
    }
}
