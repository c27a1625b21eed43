package dev.tandem.model.gguf;

import dev.tandem.model.ModelException;
import java.util.Arrays;
import java.util.List;

/**
 * The parts of a tokenizer, as a GGUF file stores them.
 *
 * @param kind "gpt2" for byte-level BPE, "llama" for SentencePiece
 * @param preTokenizer name of the pattern that splits text before merging
 * @param types of the tokens: 1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte
 * @param beginToken -1 when there is none
 */
public record GgufVocabulary(
        String kind,
        String preTokenizer,
        List<String> tokens,
        float[] scores,
        int[] types,
        List<String> merges,
        int beginToken,
        int endToken,
        int unknownToken,
        boolean addBegin,
        boolean addSpacePrefix,
        String chatTemplate) {

    public static GgufVocabulary read(GgufFile file) {
        List<String> tokens = strings(file, "tokenizer.ggml.tokens");
        if (tokens.isEmpty()) {
            throw new ModelException(file.path() + " has no tokenizer (tokenizer.ggml.tokens is missing)");
        }
        String kind = file.string("tokenizer.ggml.model", "");
        return new GgufVocabulary(
                kind,
                file.string("tokenizer.ggml.pre", "default"),
                tokens,
                floats(file, "tokenizer.ggml.scores"),
                integers(file, "tokenizer.ggml.token_type"),
                strings(file, "tokenizer.ggml.merges"),
                file.smallInteger("tokenizer.ggml.bos_token_id", -1),
                file.smallInteger("tokenizer.ggml.eos_token_id", -1),
                file.smallInteger("tokenizer.ggml.unknown_token_id", -1),
                file.flag("tokenizer.ggml.add_bos_token", kind.equals("llama")),
                file.flag("tokenizer.ggml.add_space_prefix", kind.equals("llama")),
                file.string("tokenizer.chat_template", ""));
    }

    private static List<String> strings(GgufFile file, String key) {
        return Arrays.stream(file.array(key))
                .map(value -> element(file, key, value, String.class))
                .toList();
    }

    private static float[] floats(GgufFile file, String key) {
        Object[] values = file.array(key);
        float[] floats = new float[values.length];
        for (int i = 0; i < values.length; i++) {
            floats[i] = element(file, key, values[i], Number.class).floatValue();
        }
        return floats;
    }

    private static int[] integers(GgufFile file, String key) {
        return Arrays.stream(file.array(key))
                .mapToInt(value -> element(file, key, value, Long.class).intValue())
                .toArray();
    }

    private static <T> T element(GgufFile file, String key, Object value, Class<T> type) {
        if (!type.isInstance(value)) {
            throw new ModelException(file.path() + ": the metadata array " + key + " holds a "
                    + value.getClass().getSimpleName() + "; it must hold elements of type " + type.getSimpleName());
        }
        return type.cast(value);
    }
}
