package dev.tandem.server.openai;

import dev.tandem.engine.request.TokenEvent;
import dev.tandem.text.answer.AnswerPart;
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

    AnswerStream(ServedModel model, Generation generation, AnswerReading reading) {
        this.model = model;
        this.generation = generation;
        this.choice = new AnswerChoice(model.tokenizer().vocabulary(), reading);
    }

    /** Reads to the end of the answer. Returns why the answer failed; empty when it did not. */
    Optional<String> read(PartSink sink) throws InterruptedException {
        while (true) {
            switch (generation.next().event()) {
                case TokenEvent.Token token -> {
                    outputTokens++;
                    send(choice.accept(token), sink);
                    send(choice.endReasoning(generation, 0, model.tokenizer()), sink);
                }
                case TokenEvent.Finished finished -> {
                    send(choice.finish(finished), sink);
                    cachedTokens = choice.cachedTokens(finished);
                    return choice.lacksCall() ? Optional.of(AnswerChoice.NO_CALL) : Optional.empty();
                }
                case TokenEvent.Failed failed -> {
                    return Optional.of(failed.message());
                }
            }
        }
    }

    private static void send(List<AnswerPart> parts, PartSink sink) throws InterruptedException {
        for (AnswerPart part : parts) {
            sink.part(part);
        }
    }

    /** The choice of which the answer consists. */
    AnswerChoice choice() {
        return choice;
    }

    int outputTokens() {
        return outputTokens;
    }

    /** Tokens of the prompt that were in the prefix cache; known at the end. */
    int cachedTokens() {
        return cachedTokens;
    }
}
