/**
 * OpenAI's API in terms of engine requests. Entry point: {@link dev.tandem.server.openai.OpenAiApi}.
 *
 * <p>Owned by: handlers are shared; everything about one request belongs to its virtual thread. Next: {@code metrics}.
 */
package dev.tandem.server.openai;
