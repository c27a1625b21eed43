package dev.tandem.server.openai;

import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.StreamingDetokenizer;
import dev.tandem.text.Tokenizer;
import dev.tandem.text.Vocabulary;
import dev.tandem.text.answer.AnswerFormat;
import dev.tandem.text.answer.ToolCallFormat;
import java.util.BitSet;
import java.util.Optional;
import java.util.Set;

/**
 * The model that the API serves.
 *
 * @param name by which clients request it
 * @param template absent when the model has none; chat requests are then refused
 * @param defaults of requests that leave sampling parameters out
 * @param grammars compiles the grammars that requests ask for
 * @param cacheSaltFrom what separates clients in the prefix cache
 * @param answers how the model writes reasoning and tool calls
 */
public record ServedModel(
        String name,
        Engine engine,
        Tokenizer tokenizer,
        Optional<ChatTemplate> template,
        SamplingDefaults defaults,
        GrammarCompiler grammars,
        CacheSaltFrom cacheSaltFrom,
        AnswerFormat answers) {
    /** A model whose answers have the format that its chat template shows. */
    public ServedModel(
            String name,
            Engine engine,
            Tokenizer tokenizer,
            Optional<ChatTemplate> template,
            SamplingDefaults defaults,
            GrammarCompiler grammars,
            CacheSaltFrom cacheSaltFrom) {
        this(
                name,
                engine,
                tokenizer,
                template,
                defaults,
                grammars,
                cacheSaltFrom,
                template.map(AnswerFormat::of).orElse(AnswerFormat.TEXT));
    }

    /** The same model with tool calls of this format. */
    public ServedModel withCalls(ToolCallFormat format) {
        return new ServedModel(
                name,
                engine,
                tokenizer,
                template,
                defaults,
                grammars,
                cacheSaltFrom,
                answers.withCalls(Optional.of(format)));
    }

    /** Sampling parameters that the model's authors recommend, used when a request has none. */
    public record SamplingDefaults(double temperature, double topP, int topK, double repetitionPenalty) {
        public static final SamplingDefaults NEUTRAL = new SamplingDefaults(1, 1, 0, 1);
    }

    /** Why a conversation is refused when there is no template. */
    String missingTemplate() {
        return "the model " + name + " has no chat template; use /v1/completions";
    }

    TextDecoder decoder(boolean skipSpecial) {
        return decoder(skipSpecial, Set.of());
    }

    /** @param kept spellings of special tokens that are left in the text whatever {@code skipSpecial} says */
    TextDecoder decoder(boolean skipSpecial, Set<String> kept) {
        Vocabulary vocabulary = tokenizer.vocabulary();
        BitSet skipped = skipSpecial ? (BitSet) vocabulary.special().clone() : new BitSet();
        vocabulary.special().stream()
                .filter(id -> kept.contains(vocabulary.token(id)))
                .forEach(skipped::clear);
        StreamingDetokenizer detokenizer = new StreamingDetokenizer(vocabulary, skipped);
        return TextDecoder.of(detokenizer::append, detokenizer::finish);
    }
}
