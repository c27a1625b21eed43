package dev.tandem.server.openai;

import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.StreamingDetokenizer;
import dev.tandem.text.Tokenizer;
import java.util.Optional;

/**
 * The model that the API serves.
 *
 * @param name by which clients request it
 * @param template absent when the model has none; chat requests are then refused
 * @param defaults of requests that leave sampling parameters out
 * @param grammars compiles the grammars that requests ask for
 * @param cacheSaltFrom what separates clients in the prefix cache
 */
public record ServedModel(
        String name,
        Engine engine,
        Tokenizer tokenizer,
        Optional<ChatTemplate> template,
        SamplingDefaults defaults,
        GrammarCompiler grammars,
        CacheSaltFrom cacheSaltFrom) {
    /** A model whose clients share the KV of equal prefixes. */
    public ServedModel(
            String name,
            Engine engine,
            Tokenizer tokenizer,
            Optional<ChatTemplate> template,
            SamplingDefaults defaults,
            GrammarCompiler grammars) {
        this(name, engine, tokenizer, template, defaults, grammars, CacheSaltFrom.NONE);
    }

    /** Sampling parameters that the model's authors recommend, used when a request has none. */
    public record SamplingDefaults(double temperature, double topP, int topK, double repetitionPenalty) {
        public static final SamplingDefaults NEUTRAL = new SamplingDefaults(1, 1, 0, 1);
    }

    TextDecoder decoder(boolean skipSpecial) {
        StreamingDetokenizer detokenizer = new StreamingDetokenizer(tokenizer.vocabulary(), skipSpecial);
        return TextDecoder.of(detokenizer::append, detokenizer::finish);
    }
}
