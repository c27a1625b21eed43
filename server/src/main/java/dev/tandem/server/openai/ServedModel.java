package dev.tandem.server.openai;

import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.StreamingDetokenizer;
import dev.tandem.text.Tokenizer;
import java.util.Optional;

/**
 * What the API serves.
 *
 * @param name clients ask for it by this name
 * @param template absent when the model has none: chat is then refused
 */
public record ServedModel(
        String name, Engine engine, Tokenizer tokenizer, Optional<ChatTemplate> template, SamplingDefaults defaults) {

    /** What the model's authors recommend where a request is silent. */
    public record SamplingDefaults(double temperature, double topP, int topK, double repetitionPenalty) {
        public static final SamplingDefaults NEUTRAL = new SamplingDefaults(1, 1, 0, 1);
    }

    TextDecoder decoder(boolean skipSpecial) {
        StreamingDetokenizer detokenizer = new StreamingDetokenizer(tokenizer.vocabulary(), skipSpecial);
        return TextDecoder.of(detokenizer::append, detokenizer::finish);
    }
}
