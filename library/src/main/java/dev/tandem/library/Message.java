package dev.tandem.library;

import java.util.List;

/** A message of a conversation. */
public sealed interface Message {
    /** Instructions for the model. */
    @SuppressWarnings("AvoidCommonTypeNames") // the role's name in every API; java.lang.System is not used here
    record System(String text) implements Message {}

    /** What the user says. */
    record User(String text) implements Message {}

    /**
     * What the model has answered.
     *
     * @param text empty when it only called tools
     * @param calls of tools
     */
    record Assistant(String text, List<ToolCall> calls) implements Message {
        /** Copies the list. */
        public Assistant {
            calls = List.copyOf(calls);
        }

        /** An answer without calls. */
        public Assistant(String text) {
            this(text, List.of());
        }
    }

    /**
     * What a tool has returned.
     *
     * @param callId the id of the call
     */
    record ToolResult(String callId, String text) implements Message {}
}
