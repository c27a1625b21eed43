package dev.tandem.library;

/**
 * A tool that the model may call.
 *
 * @param name by which the model calls it
 * @param description what it does, for the model
 * @param parameters JSON schema of its arguments
 */
public record Tool(String name, String description, String parameters) {}
