package dev.tandem.server.http;

/**
 * @param maxBodyBytes larger bodies are answered 413
 * @param maxHeaderBytes larger request lines and headers are answered 400
 */
public record HttpLimits(int maxBodyBytes, int maxHeaderBytes) {}
