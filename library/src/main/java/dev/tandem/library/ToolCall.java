package dev.tandem.library;

/**
 * A call of a tool that the model asks for.
 *
 * @param id names the call in the message with its result
 * @param tool its name
 * @param arguments a JSON object, unless the model wrote something else or was cut off
 */
public record ToolCall(String id, String tool, String arguments) {}
