package dev.tandem.server.openai;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.TokenEvent;
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
        parts.addAll(keep(parser.finish()));
        boolean called = !calls.isEmpty() && finished.reason() == FinishReason.STOP;
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

    /** Whether the choice ended without the call that the request demands. */
    boolean lacksCall() {
        return reading.required() && calls.isEmpty() && finishReason.equals(FinishReason.STOP.wire());
    }

    boolean showsReasoning() {
        return reading.includeReasoning() && !reasoning.isEmpty();
    }

    int reasoningTokens() {
        return reasoningTokens;
    }

    /** Whether the reasoning has used up its budget and goes on. */
    boolean isOverBudget() {
        return !reasoningEnded
                && parser.isReasoning()
                && reading.budget().isPresent()
                && reasoningTokens >= reading.budget().getAsInt();
    }

    /** Output tokens until the server ended the reasoning, of a request with a budget. */
    int[] produced() {
        return produced.stream().mapToInt(Integer::intValue).toArray();
    }

    /** Whether the server has ended the reasoning. */
    boolean reasoningEnded() {
        return reasoningEnded;
    }

    /** Takes the text that ends the reasoning, which the server wrote in the model's place. */
    List<AnswerPart> endReasoning(String ending) {
        reasoningEnded = true;
        return append(ending);
    }
}
