package dev.tandem.app;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.observe.Timeline;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;

/** Implements {@code --trace}: records the engine's lane of the timeline, and writes all lanes to a file at the end. */
final class Trace implements EngineListener {
    /** Max events per lane (2 MiB): some minutes of steps, or some seconds of layers or of a worker's tasks. */
    private static final int EVENTS = 60_000;

    private final Path file;
    private final Timeline timeline = new Timeline(EVENTS);
    private final Timeline.Lane engine = timeline.lane("engine");

    Trace(Path file) {
        this.file = file;
    }

    Timeline timeline() {
        return timeline;
    }

    @Override
    public void step(StepRecord record) {
        long planned = record.startedNanos() + record.planNanos();
        engine.add(Timeline.Kind.PLAN, record.startedNanos(), planned, record.step());
        engine.add(Timeline.Kind.EXECUTE, planned, planned + record.executeNanos(), record.step());
    }

    /** Writes the file; called when nothing records any more. */
    void write(StartLog log) {
        try (Writer out = Files.newBufferedWriter(file)) {
            timeline.write(out);
            log.notice("The timeline is in " + file + "; open it in Perfetto.");
        } catch (IOException e) {
            log.notice("The timeline cannot be written to " + file + ": " + e.getMessage()
                    + ". Name another file with --trace.");
        }
    }
}
