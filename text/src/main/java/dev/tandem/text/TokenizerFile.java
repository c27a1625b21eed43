package dev.tandem.text;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.BitSet;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.DeserializationFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.json.JsonMapper;

/**
 * A {@code tokenizer.json} that has been checked.
 *
 * @param origin names the file in error messages
 */
record TokenizerFile(byte[] json, Vocabulary vocabulary, TokenizerLimits limits, String origin) {
    /** The largest files known have 35 MB, for 260,000 tokens. */
    private static final long MAX_BYTES = 256L << 20;
    /** 16 times the largest vocabulary known; bounds the array of tokens, which is indexed by id. */
    static final int MAX_TOKENS = 1 << 22;

    private static final ObjectMapper JSON = JsonMapper.builder()
            .enable(DeserializationFeature.FAIL_ON_READING_DUP_TREE_KEY)
            .build();

    static TokenizerFile read(Path file) throws IOException {
        return of(BoundedFile.read(file, MAX_BYTES), file.toString());
    }

    /** @throws TokenizerException when the file is refused; the message gives the reason */
    static TokenizerFile of(byte[] json, String origin) {
        try {
            JsonNode root = JSON.readTree(json);
            TokenizerChecks.check(root);
            TokenizerLimits limits = TokenizerLimits.of(root);
            return new TokenizerFile(json, new Reader().vocabulary(root), limits, origin);
        } catch (TokenizerException e) {
            throw new TokenizerException(origin + ": " + e.getMessage(), e);
        } catch (JacksonException e) {
            throw new TokenizerException(origin + " is not valid JSON: " + e.getOriginalMessage(), e);
        }
    }

    /** Collects the tokens by id. */
    private static final class Reader {
        private String[] tokens = new String[1 << 15];
        private int size;
        private final BitSet special = new BitSet();
        private final BitSet literal = new BitSet();

        Vocabulary vocabulary(JsonNode root) {
            JsonNode vocabulary = root.path("model").path("vocab");
            if (vocabulary.isObject()) {
                vocabulary.propertyStream().forEach(entry -> add(entry.getValue(), entry.getKey(), false));
            } else if (vocabulary.isArray()) {
                for (int id = 0; id < vocabulary.size(); id++) {
                    add(id, string(vocabulary.get(id).path(0)), false);
                }
            } else {
                throw new TokenizerException("there is no vocabulary under model.vocab");
            }
            for (JsonNode added : root.path("added_tokens")) {
                int id = add(added.path("id"), string(added.path("content")), true);
                literal.set(id);
                special.set(id, added.path("special").asBoolean(false));
            }
            boolean byteLevel = root.path("decoder").toString().contains("ByteLevel");
            return new Vocabulary(
                    Arrays.copyOf(tokens, size),
                    special,
                    literal,
                    byteLevel ? Vocabulary.Spelling.BYTE_LEVEL : Vocabulary.Spelling.SENTENCE_PIECE);
        }

        private static String string(JsonNode node) {
            if (!node.isString()) {
                throw new TokenizerException("a token is " + node + "; it must be a string");
            }
            return node.stringValue();
        }

        private int add(JsonNode id, String token, boolean replaces) {
            if (!id.isIntegralNumber() || !id.canConvertToInt()) {
                throw new TokenizerException(
                        "token '" + token + "' has the id " + id + "; it must be a number below " + MAX_TOKENS);
            }
            return add(id.intValue(), token, replaces);
        }

        /** @param replaces whether the vocabulary may have the id already, under the same spelling */
        private int add(int id, String token, boolean replaces) {
            if (id < 0 || id >= MAX_TOKENS) {
                throw new TokenizerException(
                        "token '" + token + "' has the id " + id + "; it must be a number below " + MAX_TOKENS);
            }
            if (id >= tokens.length) {
                tokens = Arrays.copyOf(tokens, Math.min(MAX_TOKENS, Math.max(id + 1, 2 * tokens.length)));
            }
            if (tokens[id] != null && !(replaces && tokens[id].equals(token))) {
                throw new TokenizerException("tokens '" + tokens[id] + "' and '" + token + "' have the same id, " + id);
            }
            tokens[id] = token;
            size = Math.max(size, id + 1);
            return id;
        }
    }
}
