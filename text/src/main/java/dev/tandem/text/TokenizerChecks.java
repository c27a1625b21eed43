package dev.tandem.text;

import java.util.Set;
import tools.jackson.databind.JsonNode;

/**
 * Refuses a {@code tokenizer.json} on which the native library would end the process, at loading or at encoding. Each
 * check stands for a panic that was seen with version 0.21.4 of the library, or for a step that was not tested.
 */
final class TokenizerChecks {
    private static final Set<String> NORMALIZERS = Set.of(
            "Sequence",
            "NFC",
            "NFD",
            "NFKC",
            "NFKD",
            "Lowercase",
            "Strip",
            "StripAccents",
            "Replace",
            "Prepend",
            "BertNormalizer",
            "Nmt",
            "ByteLevel");
    private static final Set<String> PRE_TOKENIZERS = Set.of(
            "Sequence",
            "Split",
            "ByteLevel",
            "Metaspace",
            "Digits",
            "Punctuation",
            "Whitespace",
            "WhitespaceSplit",
            "BertPreTokenizer",
            "CharDelimiterSplit",
            "UnicodeScripts");
    private static final Set<String> POST_PROCESSORS =
            Set.of("Sequence", "TemplateProcessing", "ByteLevel", "BertProcessing", "RobertaProcessing");
    private static final Set<String> DECODERS = Set.of(
            "Sequence",
            "BPEDecoder",
            "ByteLevel",
            "WordPiece",
            "Metaspace",
            "CTC",
            "Replace",
            "Fuse",
            "Strip",
            "ByteFallback");
    private static final Set<String> MODELS = Set.of("BPE", "Unigram", "WordPiece", "WordLevel");
    private static final int MAX_DEPTH = 20;

    private TokenizerChecks() {}

    /** @throws TokenizerException when the file is refused; the message gives the reason */
    static void check(JsonNode root) {
        checkSteps(root.path("normalizer"), NORMALIZERS, 0);
        checkSteps(root.path("pre_tokenizer"), PRE_TOKENIZERS, 0);
        checkSteps(root.path("post_processor"), POST_PROCESSORS, 0);
        checkSteps(root.path("decoder"), DECODERS, 0);
        JsonNode model = root.path("model");
        if (model.has("type")) { // the library detects the type of old files
            requireKnown(model, MODELS);
        }
        // the library removes the prefix's length from each merge's second part, even without the prefix
        if (model.has("merges")
                && !model.path("continuing_subword_prefix").asString("").isEmpty()) {
            throw new TokenizerException("a model of merges with a continuing_subword_prefix is not supported");
        }
    }

    private static void checkSteps(JsonNode step, Set<String> known, int depth) {
        if (step.isMissingNode() || step.isNull()) {
            return;
        }
        if (depth > MAX_DEPTH) {
            throw new TokenizerException("its steps are nested more than " + MAX_DEPTH + " deep");
        }
        requireKnown(step, known);
        for (String steps : new String[] {"normalizers", "pretokenizers", "processors", "decoders"}) {
            step.path(steps).forEach(each -> checkSteps(each, known, depth + 1));
        }
        switch (step.path("type").asString("")) {
            case "TemplateProcessing" -> checkTemplate(step);
            case "BertProcessing", "RobertaProcessing" -> {
                requireId(step.path("sep").path(1));
                requireId(step.path("cls").path(1));
            }
            default -> {}
        }
    }

    private static void requireKnown(JsonNode step, Set<String> known) {
        JsonNode type = step.path("type");
        if (!type.isString() || !known.contains(type.stringValue())) {
            throw new TokenizerException("a step of type " + type + " is not supported; supported are "
                    + known.stream().sorted().toList());
        }
    }

    /** Texts are encoded as sequence A; an undefined special token, or sequence B, would end the process. */
    private static void checkTemplate(JsonNode step) {
        JsonNode defined = step.path("special_tokens");
        defined.forEach(token -> token.path("ids").forEach(TokenizerChecks::requireId));
        if (!step.path("single").isArray()) {
            throw new TokenizerException("the template's 'single' is not a list");
        }
        for (JsonNode piece : step.path("single")) {
            JsonNode special = piece.path("SpecialToken").path("id");
            JsonNode sequence = piece.path("Sequence").path("id");
            boolean known = special.isString() && defined.has(special.stringValue())
                    || sequence.isString() && sequence.stringValue().equals("A");
            if (!known) {
                throw new TokenizerException(
                        "the template's piece " + piece + " is neither sequence A nor one of its special_tokens");
            }
        }
    }

    private static void requireId(JsonNode id) {
        if (!id.isIntegralNumber()
                || !id.canConvertToInt()
                || id.intValue() < 0
                || id.intValue() >= TokenizerFile.MAX_TOKENS) {
            throw new TokenizerException("a token that is added to every text has the id " + id
                    + "; it must be a number below " + TokenizerFile.MAX_TOKENS);
        }
    }
}
