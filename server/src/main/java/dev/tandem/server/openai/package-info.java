/**
 * OpenAI's API, translated to engine requests. Entry point: {@link dev.tandem.server.openai.OpenAiApi}.
 *
 * <p>Owned by: handlers are shared; everything about one request belongs to its virtual thread. Next: {@code metrics}.
 */
@NullMarked
package dev.tandem.server.openai;

import org.jspecify.annotations.NullMarked;
