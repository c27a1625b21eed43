package dev.tandem.engine;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** Records what JFR sees of a piece of work. */
public final class JfrRecording {
    private JfrRecording() {}

    /** Tandem's events of this name while the work ran, the oldest first. */
    public static List<RecordedEvent> events(String name, Runnable work) throws IOException {
        Path file = Files.createTempFile("tandem", ".jfr");
        try (Recording recording = new Recording()) {
            recording.enable(name);
            recording.start();
            work.run();
            recording.stop();
            recording.dump(file);
            return RecordingFile.readAllEvents(file).stream()
                    .filter(event -> event.getEventType().getName().equals(name))
                    .toList();
        } finally {
            Files.delete(file);
        }
    }
}
