package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.text.answer.AnswerFormat;
import dev.tandem.text.answer.AnswerParser;
import dev.tandem.text.answer.ReasoningFormat;
import dev.tandem.text.answer.ToolCallFormat;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.UUID;
import java.util.stream.IntStream;

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
    /** Enough for the marker that begins reasoning, also where each character is a token. */
    private static final int PROMPT_END_TOKENS = 64;

    /** All text is content. */
    static final AnswerReading TEXT =
            new AnswerReading(AnswerFormat.TEXT, Set.of(), true, false, "", true, OptionalInt.empty());

    /**
     * The reading of a model's answers.
     *
     * @param demanded what an answer without calls must match; only channels leave room for reasoning beside it
     * @param prompt of the request
     * @throws RequestException when the answer is constrained and the reasoning has a budget: its end makes a second
     *     request of the engine, which no grammar outlives
     */
    static AnswerReading of(
            ServedModel model,
            ToolUse tools,
            Optional<GrammarFields.Constraint> demanded,
            int[] prompt,
            boolean includeReasoning,
            ReasoningFields.Budget budget) {
        demanded.map(GrammarFields.Constraint::field)
                .or(tools::constrainedBy)
                .ifPresent(field ->
                        refuseTogether(field, budget.field(), budget.tokens().isPresent()));
        if (demanded.isPresent() && !leavesRoomForReasoning(demanded.get(), model.answers())) {
            return tools.tools().isEmpty() ? TEXT : withoutReasoning(tools, model);
        }
        int[] end = Arrays.copyOfRange(prompt, Math.max(0, prompt.length - PROMPT_END_TOKENS), prompt.length);
        return new AnswerReading(
                model.answers(),
                tools.names(),
                tools.parallel(),
                tools.demand().isPresent(),
                model.tokenizer().decode(end, false),
                includeReasoning,
                budget.tokens());
    }

    private static AnswerReading withoutReasoning(ToolUse tools, ServedModel model) {
        return new AnswerReading(
                new AnswerFormat(model.answers().calls(), Optional.empty()),
                tools.names(),
                tools.parallel(),
                false,
                "",
                true,
                OptionalInt.empty());
    }

    /** Whether the model may reason before an answer that must match: channels keep both apart. */
    static boolean leavesRoomForReasoning(GrammarFields.Constraint demanded, AnswerFormat answers) {
        return demanded.isJson() && answers.hasChannels();
    }

    /** Refuses a request that has both. */
    static void refuseTogether(String field, String other, boolean isPresent) {
        if (isPresent) {
            throw RequestException.bad(field, field + " cannot be combined with " + other + "; leave one of them out");
        }
    }

    /** The prompt, after which the reasoning has ended when it may have no tokens. */
    int[] begin(int[] prompt, ServedModel model) {
        if (!startsOverBudget()) {
            return prompt;
        }
        int[] ending = model.tokenizer().encode(ending().orElseThrow(), false);
        return IntStream.concat(IntStream.of(prompt), IntStream.of(ending)).toArray();
    }

    /**
     * The id of a call, the same for a request's stream and whole answer.
     *
     * @param prefix as the API's ids have it; Mistral's templates take ids of nine characters only, without a prefix
     * @param answer the id of the answer
     */
    String callId(String prefix, String answer, int call) {
        byte[] name = (answer + "-" + call).getBytes(StandardCharsets.UTF_8);
        String unique = UUID.nameUUIDFromBytes(name).toString().replace("-", "");
        boolean mistral = format.calls().filter(ToolCallFormat.MISTRAL::equals).isPresent();
        return mistral ? unique.substring(0, 9) : prefix + unique.substring(0, 24);
    }

    AnswerParser parser() {
        return format.parser(tools, parallel, startsOverBudget() ? "" : promptEnd);
    }

    /** Whether the prompt begins reasoning that may have no tokens. */
    private boolean startsOverBudget() {
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
