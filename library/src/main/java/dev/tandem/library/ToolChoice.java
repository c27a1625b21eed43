package dev.tandem.library;

/** Whether an answer calls tools. */
public sealed interface ToolChoice {
    /** The model decides. */
    record Auto() implements ToolChoice {}

    /** The answer calls no tool. */
    record None() implements ToolChoice {}

    /** The answer calls at least one tool. */
    record Required() implements ToolChoice {}

    /** The answer calls this tool. */
    record Named(String tool) implements ToolChoice {}
}
