/**
 * Parsers of answers: they split generated text into reasoning, content and tool calls, in the formats that chat
 * templates teach. Entry point: {@link dev.tandem.text.answer.AnswerFormat}.
 *
 * <p>Owned by: formats are immutable and shared; a parser belongs to one answer. Next: module {@code server}.
 */
@NullMarked
package dev.tandem.text.answer;

import org.jspecify.annotations.NullMarked;
