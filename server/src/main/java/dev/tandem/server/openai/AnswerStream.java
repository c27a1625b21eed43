package dev.tandem.server.openai;

import dev.tandem.engine.request.TokenEvent;
import dev.tandem.text.answer.AnswerPart;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The parts of an answer that has one choice, as they are generated.
 *
 * <p>Owned by: the request's virtual thread.
 */
final class AnswerStream {
    /** Receives the parts. */
    interface PartSink {
        void part(AnswerPart part) throws InterruptedException;
    }

    private final ServedModel model;
    private final Generation generation;
    private final AnswerChoice choice;
    private int outputTokens;
    private int cachedTokens;
    private int hostTokens;
    private boolean ended;
    private Optional<String> failure = Optional.empty();

    AnswerStream(ServedModel model, Generation generation, AnswerReading reading) {
        this.model = model;
        this.generation = generation;
        this.choice = new AnswerChoice(model.tokenizer().vocabulary(), reading);
    }

    /** Reads to the end of the answer. Returns why the answer failed; empty when it did not. */
    Optional<String> read(PartSink sink) throws InterruptedException {
        while (!ended) {
            for (AnswerPart part : next()) {
                sink.part(part);
            }
        }
        return failure;
    }

    /** Waits for the next event, and returns the parts that it completes; a token may complete none. */
    List<AnswerPart> next() throws InterruptedException {
        return switch (generation.next().event()) {
            case TokenEvent.Token token -> {
                outputTokens++;
                hostTokens += token.fromHost() ? 1 : 0;
                List<AnswerPart> parts = new ArrayList<>(choice.accept(token));
                parts.addAll(choice.endReasoning(generation, 0, model.tokenizer()));
                yield parts;
            }
            case TokenEvent.Finished finished -> {
                ended = true;
                List<AnswerPart> parts = choice.finish(finished);
                cachedTokens = choice.cachedTokens(finished);
                failure = choice.lacksCall() ? Optional.of(AnswerChoice.NO_CALL) : Optional.empty();
                yield parts;
            }
            case TokenEvent.Failed failed -> {
                ended = true;
                failure = Optional.of(failed.message());
                yield List.of();
            }
        };
    }

    /** Whether no event follows. */
    boolean isEnded() {
        return ended;
    }

    /** Why the answer failed; empty before its end, and when it did not. */
    Optional<String> failure() {
        return failure;
    }

    /** The choice of which the answer consists. */
    AnswerChoice choice() {
        return choice;
    }

    int outputTokens() {
        return outputTokens;
    }

    /** Output tokens whose attention the CPU computed. */
    int hostTokens() {
        return hostTokens;
    }

    /** Tokens of the prompt that were in the prefix cache; known at the end. */
    int cachedTokens() {
        return cachedTokens;
    }
}
