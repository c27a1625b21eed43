package dev.tandem.server.openai;

import dev.tandem.text.answer.AnswerFormat;
import dev.tandem.text.answer.AnswerParser;
import dev.tandem.text.answer.ReasoningFormat;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;

/**
 * How the text of a request's answers is split into reasoning, content and calls.
 *
 * @param format of the model
 * @param tools names that may be called; none when text that looks like a call is content
 * @param parallel whether calls after the first are kept
 * @param required whether an answer without a call is an error
 * @param promptEnd the end of the prompt's text, which may have begun the reasoning
 * @param includeReasoning whether the client gets the reasoning
 * @param budget max tokens of reasoning
 */
record AnswerReading(
        AnswerFormat format,
        Set<String> tools,
        boolean parallel,
        boolean required,
        String promptEnd,
        boolean includeReasoning,
        OptionalInt budget) {
    /** All text is content. */
    static final AnswerReading TEXT =
            new AnswerReading(AnswerFormat.TEXT, Set.of(), true, false, "", true, OptionalInt.empty());

    AnswerParser parser() {
        return format.parser(tools, parallel, startsOverBudget() ? "" : promptEnd);
    }

    /** Whether the prompt begins reasoning that may have no tokens. */
    boolean startsOverBudget() {
        return budget.isPresent()
                && budget.getAsInt() == 0
                && format.reasoning()
                        .filter(reasoning -> reasoning.isOpenAfter(promptEnd))
                        .isPresent();
    }

    /** Texts that the parser needs, even where they are special tokens. */
    Set<String> markers() {
        return format.markers(!tools.isEmpty());
    }

    /** The text that ends reasoning which has used up its budget. */
    Optional<String> ending() {
        return format.reasoning().map(ReasoningFormat::ending);
    }
}
