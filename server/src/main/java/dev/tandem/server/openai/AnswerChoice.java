package dev.tandem.server.openai;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.text.Tokenizer;
import dev.tandem.text.Vocabulary;
import dev.tandem.text.answer.AnswerParser;
import dev.tandem.text.answer.AnswerPart;
import java.util.ArrayList;
import java.util.List;

/**
 * One choice of an answer while it is generated.
 *
 * <p>Owned by: the request's virtual thread.
 */
final class AnswerChoice {
    /** A tool call and its arguments so far. */
    record Call(String name, StringBuilder arguments) {}

    static final String NO_CALL = "the model ended its answer without the call that tool_choice demands";

    final Logprobs logprobs;
    final StringBuilder content = new StringBuilder();
    final StringBuilder reasoning = new StringBuilder();
    final List<Call> calls = new ArrayList<>();
    String finishReason = "";
    String stopReason = "";

    private final AnswerReading reading;
    private final AnswerParser parser;
    private final List<Integer> produced = new ArrayList<>();
    /** Characters of the generated text, reasoning and markers included. */
    private int characters;

    private int reasoningTokens;
    private boolean reasoningEnded;

    AnswerChoice(Vocabulary vocabulary, AnswerReading reading) {
        this.logprobs = new Logprobs(vocabulary);
        this.reading = reading;
        this.parser = reading.parser();
    }

    /** Puts text before the generated text. */
    void prefix(String text) {
        content.append(text);
        characters += text.length();
    }

    /** The parts for the client that the token completes. */
    List<AnswerPart> accept(TokenEvent.Token token) {
        if (parser.isReasoning()) {
            reasoningTokens++;
        }
        if (reading.budget().isPresent() && !reasoningEnded) {
            produced.add(token.id());
        }
        token.logprobs().ifPresent(values -> logprobs.add(token.id(), values, characters));
        return append(token.text());
    }

    /** The last parts. */
    List<AnswerPart> finish(TokenEvent.Finished finished) {
        List<AnswerPart> parts = new ArrayList<>(append(finished.text()));
        boolean complete = finished.reason() == FinishReason.STOP;
        parts.addAll(keep(parser.finish(complete)));
        boolean called = !calls.isEmpty() && complete;
        finishReason = called ? "tool_calls" : finished.reason().wire();
        stopReason = finished.stopReason();
        return parts;
    }

    private List<AnswerPart> append(String text) {
        characters += text.length();
        return keep(parser.append(text));
    }

    private List<AnswerPart> keep(List<AnswerPart> parts) {
        for (AnswerPart part : parts) {
            switch (part) {
                case AnswerPart.Reasoning more -> reasoning.append(more.text());
                case AnswerPart.Content more -> content.append(more.text());
                case AnswerPart.Call call -> calls.add(new Call(call.name(), new StringBuilder()));
                case AnswerPart.Arguments more -> calls.getLast().arguments().append(more.text());
            }
        }
        return reading.includeReasoning()
                ? parts
                : parts.stream()
                        .filter(part -> !(part instanceof AnswerPart.Reasoning))
                        .toList();
    }

    /**
     * Whether the model ended the answer without the call that the request demands. An answer that the client's own
     * stop string or max tokens cut short is returned as it is.
     */
    boolean lacksCall() {
        return reading.required()
                && calls.isEmpty()
                && finishReason.equals(FinishReason.STOP.wire())
                && stopReason.isEmpty();
    }

    boolean showsReasoning() {
        return reading.includeReasoning() && !reasoning.isEmpty();
    }

    int reasoningTokens() {
        return reasoningTokens;
    }

    /** Whether the reasoning has used up its budget and goes on. */
    private boolean isOverBudget() {
        return !reasoningEnded
                && parser.isReasoning()
                && reading.budget().isPresent()
                && reasoningTokens >= reading.budget().getAsInt();
    }

    /** Tokens of the client's prompt that were in the prefix cache. */
    int cachedTokens(TokenEvent.Finished finished) {
        // a resumed request finds its own output in the cache, which is no part of the client's prompt
        return reasoningEnded ? 0 : finished.usage().cachedTokens();
    }

    /** How many of the {@link #cachedTokens} were found in host blocks. */
    int hostCachedTokens(TokenEvent.Finished finished) {
        return reasoningEnded ? 0 : finished.usage().hostCachedTokens();
    }

    /**
     * Ends reasoning that has used up its budget: the choice goes on after the text that ends it.
     *
     * @param index of this choice in the generation
     */
    List<AnswerPart> endReasoning(Generation generation, int index, Tokenizer tokenizer) {
        if (!isOverBudget()) {
            return List.of();
        }
        String ending = reading.ending().orElseThrow();
        int[] kept = produced.stream().mapToInt(Integer::intValue).toArray();
        if (!generation.resume(index, kept, tokenizer.encode(ending, false))) {
            return List.of(); // where no room is left for an answer, the reasoning goes on to the end
        }
        reasoningEnded = true;
        return append(ending);
    }
}
