package dev.tandem.text;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import tools.jackson.core.JsonGenerator;
import tools.jackson.core.ObjectWriteContext;
import tools.jackson.core.io.JsonStringEncoder;
import tools.jackson.core.json.JsonFactory;

/**
 * The parts of a tokenizer as GGUF files store them; {@link #open} builds a tokenizer of the native library from them.
 *
 * @param kind "gpt2" (byte-level BPE with merges) or "llama" (SentencePiece BPE with scores)
 * @param preTokenizer GGUF's name of the pattern that splits text before merging
 * @param types of the tokens: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
 * @param beginToken id of the begin-of-sequence token; -1 for none
 * @param unknownToken id of the token for unknown text; -1 for none
 */
public record TokenizerDescription(
        String kind,
        String preTokenizer,
        List<String> tokens,
        float[] scores,
        int[] types,
        List<String> merges,
        int beginToken,
        int unknownToken,
        boolean addBegin,
        boolean addSpacePrefix) {
    /**
     * Limits the work of finding merges, which splits each token at each position; the largest known vocabularies need
     * 20 million characters.
     */
    private static final long MAX_SPLIT_CHARACTERS = 1 << 30;

    private static final int UNKNOWN = 2;
    private static final int CONTROL = 3;
    private static final int USER_DEFINED = 4;
    private static final int BYTE = 6;
    private static final String CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|";
    private static final String REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    private static final String LLAMA3 = CONTRACTIONS + "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" + REST;
    private static final String QWEN2 = CONTRACTIONS + "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" + REST;

    /**
     * Builds the tokenizer that these parts describe.
     *
     * @throws TokenizerException when the kind or the pre-tokenizer is not known, or the parts do not fit together
     */
    public Tokenizer open(String origin) {
        try {
            requireConsistent();
        } catch (TokenizerException e) {
            throw new TokenizerException(origin + ": " + e.getMessage(), e);
        }
        BitSet special = new BitSet();
        BitSet literal = new BitSet();
        for (int id = 0; id < types.length; id++) {
            special.set(id, types[id] == CONTROL);
            literal.set(id, types[id] == CONTROL || types[id] == USER_DEFINED);
        }
        Vocabulary.Spelling spelling = switch (kind) {
            case "gpt2" -> Vocabulary.Spelling.BYTE_LEVEL;
            case "llama" -> Vocabulary.Spelling.SENTENCE_PIECE;
            default ->
                throw new TokenizerException(
                        origin + ": tokenizer model '" + kind + "' is not supported; supported are gpt2 and llama");
        };
        Vocabulary vocabulary = new Vocabulary(tokens.toArray(String[]::new), special, literal, spelling);
        return HuggingFaceTokenizer.of(new TokenizerFile(json(vocabulary, origin), vocabulary, limits(), origin));
    }

    private void requireConsistent() {
        if (tokens.isEmpty() || tokens.size() > TokenizerFile.MAX_TOKENS) {
            throw new TokenizerException("the vocabulary has " + tokens.size() + " tokens; it must have between 1 and "
                    + TokenizerFile.MAX_TOKENS);
        }
        if (types.length != 0 && types.length != tokens.size()) {
            throw new TokenizerException(tokens.size() + " tokens have " + types.length + " types");
        }
        if (kind.equals("llama") && scores.length != tokens.size()) {
            throw new TokenizerException(tokens.size() + " tokens have " + scores.length + " scores");
        }
        requireToken("bos_token_id", beginToken);
        requireToken("unknown_token_id", unknownToken);
        long work = 0;
        Set<String> seen = new HashSet<>();
        for (String token : tokens) {
            if (!seen.add(token)) {
                throw new TokenizerException("the vocabulary has the token '" + token + "' twice");
            }
            work += (long) token.length() * token.length();
        }
        if (work > MAX_SPLIT_CHARACTERS) {
            throw new TokenizerException("its tokens are too long: the squares of their lengths add up to " + work
                    + "; the limit is " + MAX_SPLIT_CHARACTERS);
        }
        for (String merge : kind.equals("gpt2") ? merges : List.<String>of()) {
            int blank = merge.indexOf(' ', 1);
            if (blank < 0
                    || !seen.contains(merge.substring(0, blank))
                    || !seen.contains(merge.substring(blank + 1))
                    || !seen.contains(merge.substring(0, blank) + merge.substring(blank + 1))) {
                throw new TokenizerException(
                        "the merge '" + merge + "' is not two tokens of the vocabulary that make a third");
            }
        }
    }

    private void requireToken(String name, int id) {
        if (id < -1 || id >= tokens.size()) {
            throw new TokenizerException(name + " is " + id + " and the vocabulary has " + tokens.size() + " tokens");
        }
    }

    private byte[] json(Vocabulary vocabulary, String origin) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(4 << 20);
        // only the streaming API: loading the object mapper would add a third of a second to the start
        try (JsonGenerator json = new JsonFactory().createGenerator(ObjectWriteContext.empty(), bytes)) {
            json.writeStartObject();
            json.writeStringProperty("version", "1.0");
            json.writeNullProperty("truncation");
            json.writeNullProperty("padding");
            addedTokens(json, vocabulary);
            if (kind.equals("gpt2")) {
                json.writeNullProperty("normalizer");
                json.writeName("pre_tokenizer");
                json.writeRawValue(preTokenizerJson(origin));
            } else {
                json.writeName("normalizer");
                json.writeRawValue(spaceNormalizer());
                json.writeNullProperty("pre_tokenizer");
            }
            json.writeName("post_processor");
            json.writeRawValue(postProcessor());
            json.writeNullProperty("decoder");
            model(json);
            json.writeEndObject();
        }
        return bytes.toByteArray();
    }

    private void addedTokens(JsonGenerator json, Vocabulary vocabulary) {
        json.writeArrayPropertyStart("added_tokens");
        for (int id = vocabulary.literal().nextSetBit(0);
                id >= 0;
                id = vocabulary.literal().nextSetBit(id + 1)) {
            json.writeStartObject();
            json.writeNumberProperty("id", id);
            json.writeStringProperty("content", tokens.get(id));
            json.writeBooleanProperty("single_word", false);
            json.writeBooleanProperty("lstrip", false);
            json.writeBooleanProperty("rstrip", false);
            json.writeBooleanProperty("normalized", false);
            json.writeBooleanProperty("special", vocabulary.isSpecial(id));
            json.writeEndObject();
        }
        json.writeEndArray();
    }

    private String preTokenizerJson(String origin) {
        String gpt2 = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}";
        return switch (preTokenizer) {
            case "default", "gpt-2" -> gpt2;
            case "smollm" ->
                "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," + gpt2
                        + "]}";
            case "llama-bpe", "llama3", "llama-v3", "smaug-bpe", "dbrx" -> split(LLAMA3);
            case "qwen2" -> split(QWEN2);
            default ->
                throw new TokenizerException(origin + ": pre-tokenizer '" + preTokenizer
                        + "' is not known; known are default, gpt-2, smollm, llama-bpe, smaug-bpe, dbrx and qwen2");
        };
    }

    private TokenizerLimits limits() {
        return switch (kind.equals("gpt2") ? preTokenizer : kind) {
            case "llama" -> TokenizerLimits.NONE;
            case "llama-bpe", "llama3", "llama-v3", "smaug-bpe", "dbrx" -> TokenizerLimits.ofPattern(LLAMA3);
            case "qwen2" -> TokenizerLimits.ofPattern(QWEN2);
            default -> TokenizerLimits.ofPattern(TokenizerLimits.BYTE_LEVEL);
        };
    }

    private static String split(String pattern) {
        return "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":" + quoted(pattern)
                + "},\"behavior\":\"Isolated\",\"invert\":false},"
                + "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]}";
    }

    private static String quoted(String text) {
        return '"' + new String(JsonStringEncoder.getInstance().quoteAsCharArray(text)) + '"';
    }

    private String spaceNormalizer() {
        String replace = "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}";
        String prepend = "{\"type\":\"Prepend\",\"prepend\":\"▁\"},";
        return "{\"type\":\"Sequence\",\"normalizers\":[" + (addSpacePrefix ? prepend : "") + replace + "]}";
    }

    private String postProcessor() {
        if (!addBegin || beginToken < 0) {
            return "null";
        }
        String begin = quoted(tokens.get(beginToken));
        String first = "{\"SpecialToken\":{\"id\":" + begin + ",\"type_id\":0}}";
        String text = "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}";
        return "{\"type\":\"TemplateProcessing\",\"single\":[" + first + "," + text + "],\"pair\":[" + first + ","
                + text
                + "],\"special_tokens\":{" + begin + ":{\"id\":" + begin + ",\"ids\":[" + beginToken + "],\"tokens\":["
                + begin + "]}}}";
    }

    private void model(JsonGenerator json) {
        json.writeObjectPropertyStart("model");
        json.writeStringProperty("type", "BPE");
        json.writeNullProperty("dropout");
        if (unknownToken >= 0 && kind.equals("llama")) {
            json.writeStringProperty("unk_token", tokens.get(unknownToken));
        } else {
            json.writeNullProperty("unk_token");
        }
        json.writeNullProperty("continuing_subword_prefix");
        json.writeNullProperty("end_of_word_suffix");
        json.writeBooleanProperty("fuse_unk", kind.equals("llama"));
        json.writeBooleanProperty("byte_fallback", kind.equals("llama"));
        json.writeBooleanProperty("ignore_merges", preTokenizer.startsWith("llama"));
        json.writeObjectPropertyStart("vocab");
        for (int id = 0; id < tokens.size(); id++) {
            json.writeNumberProperty(tokens.get(id), id);
        }
        json.writeEndObject();
        json.writeArrayPropertyStart("merges");
        for (Merge merge : kind.equals("llama") ? mergesFromScores() : byteLevelMerges()) {
            json.writeStartArray();
            json.writeString(merge.left());
            json.writeString(merge.right());
            json.writeEndArray();
        }
        json.writeEndArray();
        json.writeEndObject();
    }

    /** The two tokens of a merge; those of SentencePiece may hold spaces. */
    private record Merge(String left, String right) {}

    /** Each merge is a line with two tokens; in byte-level tokens a space is Ġ. */
    private List<Merge> byteLevelMerges() {
        return merges.stream()
                .map(merge -> {
                    int blank = merge.indexOf(' ', 1);
                    return new Merge(merge.substring(0, blank), merge.substring(blank + 1));
                })
                .toList();
    }

    /** SentencePiece stores no merges: each split of a piece into two other pieces is one, best score first. */
    private List<Merge> mergesFromScores() {
        Map<String, Integer> ids = new HashMap<>();
        for (int id = 0; id < tokens.size(); id++) {
            if (isMerged(id)) {
                ids.put(tokens.get(id), id);
            }
        }
        record Candidate(int left, int right, float score) {}
        List<Candidate> found = new ArrayList<>();
        ids.forEach((piece, id) -> {
            for (int cut = 1; cut < piece.length(); cut++) {
                Integer left = ids.get(piece.substring(0, cut));
                Integer right = ids.get(piece.substring(cut));
                if (left != null && right != null) {
                    found.add(new Candidate(left, right, scores[id]));
                }
            }
        });
        found.sort(Comparator.comparingDouble((Candidate merge) -> -merge.score())
                .thenComparingInt(Candidate::left)
                .thenComparingInt(Candidate::right));
        return found.stream()
                .map(merge -> new Merge(tokens.get(merge.left()), tokens.get(merge.right())))
                .toList();
    }

    /** Whether pieces of the text are merged into it; the others are found as a whole, or stand for a byte. */
    private boolean isMerged(int id) {
        return types.length == 0
                || switch (types[id]) {
                    case UNKNOWN, CONTROL, USER_DEFINED, BYTE -> false;
                    default -> true;
                };
    }
}
