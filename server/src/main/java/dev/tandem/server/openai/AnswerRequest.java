package dev.tandem.server.openai;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenSink;
import java.util.Optional;

/**
 * A checked request for answers in a conversation, ready for the engine.
 *
 * @param prompt tokens of the rendered conversation
 * @param sampling of its first choice, without the grammar
 * @param constraint the grammar of its answers, not yet compiled
 * @param reading how its answers are split into parts
 * @param skipSpecial whether special tokens are left out of the text
 * @param priority lower runs first
 */
record AnswerRequest(
        int[] prompt,
        SamplingParams sampling,
        Optional<GrammarFields.Constraint> constraint,
        AnswerReading reading,
        boolean skipSpecial,
        int priority,
        LatencyTargets targets,
        PrefixCaching caching,
        Deadline deadline) {

    /** A request of an API without priorities and latency targets, whose prompt is complete. */
    static AnswerRequest of(
            ServedModel model,
            int[] prompt,
            SamplingParams sampling,
            Optional<GrammarFields.Constraint> constraint,
            AnswerReading reading,
            PrefixCaching caching,
            Deadline deadline) {
        return new AnswerRequest(
                reading.begin(prompt, model),
                sampling,
                constraint,
                reading,
                true,
                0,
                LatencyTargets.NONE,
                caching,
                deadline);
    }

    /**
     * The engine's request for one choice.
     *
     * @param choice its parameters, the grammar included
     */
    Request choice(ServedModel model, String id, SamplingParams choice, TokenSink sink) {
        return new Request(id, prompt, choice, priority, targets, model.decoder(skipSpecial, reading.markers()), sink)
                .withCaching(caching);
    }
}
