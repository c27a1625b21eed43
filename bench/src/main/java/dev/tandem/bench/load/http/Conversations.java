package dev.tandem.bench.load.http;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;

/**
 * What the requests of a load ask: conversations of one or more turns.
 *
 * @param first the first prompt of the conversation at an index
 * @param turns requests per conversation
 * @param question what a turn adds after the answer to the one before
 * @param questionTokens length of a question
 */
public record Conversations(IntFunction<Prompt> first, int turns, Question question, int questionTokens) {
    /** The text that a turn adds; turns count from 0, and the first prompt is turn 0. */
    public interface Question {
        String text(int conversation, int turn);
    }

    /** Conversations of one request each. */
    public static Conversations ofOneTurn(IntFunction<Prompt> prompts) {
        return new Conversations(
                prompts,
                1,
                (conversation, turn) -> {
                    throw new IllegalStateException("a conversation of one turn has no turn " + turn);
                },
                0);
    }

    /**
     * The prompt of a turn: all that was said before it, and a new question.
     *
     * @param before the prompt of the turn before, which is text
     * @param answer the answer to it
     */
    Prompt next(Prompt before, String answer, int conversation, int turn) {
        List<String> messages = new ArrayList<>(
                switch (before.content()) {
                    case Prompt.Content.Text text -> List.of(text.text());
                    case Prompt.Content.Messages said -> said.texts();
                    case Prompt.Content.Tokens ids ->
                        throw new IllegalArgumentException("an answer is text and cannot follow token ids");
                });
        messages.add(answer);
        messages.add(question.text(conversation, turn));
        return new Prompt(
                new Prompt.Content.Messages(List.copyOf(messages)),
                before.promptTokens() + before.outputTokens() + questionTokens,
                before.outputTokens());
    }
}
