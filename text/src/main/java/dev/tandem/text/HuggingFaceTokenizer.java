package dev.tandem.text;

import ai.djl.huggingface.tokenizers.Encoding;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Hugging Face's own tokenizers, from a {@code tokenizer.json}. */
public final class HuggingFaceTokenizer implements Tokenizer {
    static {
        // the library would otherwise look for GPU builds to download, and report home
        System.setProperty("ai.djl.offline", "true");
    }

    private final ai.djl.huggingface.tokenizers.HuggingFaceTokenizer delegate;
    private final Vocabulary vocabulary;

    private HuggingFaceTokenizer(byte[] json, Vocabulary vocabulary, String origin) {
        this.vocabulary = vocabulary;
        try {
            this.delegate = ai.djl.huggingface.tokenizers.HuggingFaceTokenizer.newInstance(
                    new ByteArrayInputStream(json), Map.of("truncation", "false", "padding", "false"));
        } catch (IOException | RuntimeException e) {
            throw new TokenizerException(origin + " is not a tokenizer the library can load: " + e.getMessage(), e);
        }
    }

    /** From {@code tokenizer.json} in a model's directory. */
    public static HuggingFaceTokenizer open(Path directory) {
        Path file = directory.resolve("tokenizer.json");
        if (!Files.exists(file)) {
            throw new TokenizerException(directory + " has no tokenizer.json; the model's text cannot be tokenized without it");
        }
        try {
            byte[] json = Files.readAllBytes(file);
            return new HuggingFaceTokenizer(json, readVocabulary(new ObjectMapper().readTree(json), file), file.toString());
        } catch (IOException | JacksonException e) {
            throw new TokenizerException(file + " cannot be read: " + e.getMessage(), e);
        }
    }

    /** From a description made elsewhere, with a vocabulary already known. */
    static HuggingFaceTokenizer of(byte[] json, Vocabulary vocabulary, String origin) {
        return new HuggingFaceTokenizer(json, vocabulary, origin);
    }

    private static Vocabulary readVocabulary(JsonNode root, Path file) {
        Map<Integer, String> tokens = new HashMap<>();
        JsonNode vocabulary = root.path("model").path("vocab");
        if (vocabulary.isObject()) {
            vocabulary.propertyStream().forEach(entry -> tokens.put(entry.getValue().asInt(), entry.getKey()));
        } else if (vocabulary.isArray()) {
            for (int id = 0; id < vocabulary.size(); id++) {
                tokens.put(id, vocabulary.get(id).get(0).asString());
            }
        } else {
            throw new TokenizerException(file + " has no vocabulary under model.vocab");
        }
        BitSet special = new BitSet();
        BitSet literal = new BitSet();
        for (JsonNode added : root.path("added_tokens")) {
            int id = added.path("id").asInt();
            tokens.put(id, added.path("content").asString());
            literal.set(id);
            special.set(id, added.path("special").asBoolean(false));
        }
        int size = tokens.keySet().stream().mapToInt(Integer::intValue).max().orElse(-1) + 1;
        String[] byId = new String[size];
        tokens.forEach((id, token) -> byId[id] = token);
        boolean byteLevel = root.path("decoder").toString().contains("ByteLevel");
        return new Vocabulary(
                byId, special, literal, byteLevel ? Vocabulary.Spelling.BYTE_LEVEL : Vocabulary.Spelling.SENTENCE_PIECE);
    }

    @Override
    public int[] encode(String text, boolean addSpecial) {
        Encoding encoding = delegate.encode(text, addSpecial, false);
        long[] ids = encoding.getIds();
        int[] tokens = new int[ids.length];
        for (int i = 0; i < ids.length; i++) {
            tokens[i] = (int) ids[i];
        }
        return tokens;
    }

    @Override
    public Vocabulary vocabulary() {
        return vocabulary;
    }

    @Override
    public void close() {
        delegate.close();
    }
}
