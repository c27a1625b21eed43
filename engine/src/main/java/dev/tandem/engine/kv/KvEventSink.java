package dev.tandem.engine.kv;

import java.util.List;

/** Receives the changes of the prefix cache, after each step that had some. */
@FunctionalInterface
public interface KvEventSink {
    /** Ignores all events; the engine then records none. */
    KvEventSink NONE = events -> {};

    /**
     * Takes the events since the last call, in order. The engine thread calls it, so it must return at once and must
     * not throw.
     */
    void offer(List<KvEvent> events);
}
