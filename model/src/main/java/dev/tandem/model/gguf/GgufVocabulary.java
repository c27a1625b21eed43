package dev.tandem.model.gguf;

import dev.tandem.model.ModelException;
import java.util.Arrays;
import java.util.List;

/**
 * The tokenizer a GGUF file describes.
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
        Object[] tokens = file.array("tokenizer.ggml.tokens");
        if (tokens.length == 0) {
            throw new ModelException(file.path() + " has no tokenizer (tokenizer.ggml.tokens is missing)");
        }
        String kind = file.string("tokenizer.ggml.model", "");
        return new GgufVocabulary(
                kind,
                file.string("tokenizer.ggml.pre", "default"),
                strings(tokens),
                floats(file.array("tokenizer.ggml.scores")),
                integers(file.array("tokenizer.ggml.token_type")),
                strings(file.array("tokenizer.ggml.merges")),
                (int) file.integer("tokenizer.ggml.bos_token_id", -1),
                (int) file.integer("tokenizer.ggml.eos_token_id", -1),
                (int) file.integer("tokenizer.ggml.unknown_token_id", -1),
                file.flag("tokenizer.ggml.add_bos_token", kind.equals("llama")),
                file.flag("tokenizer.ggml.add_space_prefix", kind.equals("llama")),
                file.string("tokenizer.chat_template", ""));
    }

    private static List<String> strings(Object[] values) {
        return Arrays.stream(values).map(String::valueOf).toList();
    }

    private static float[] floats(Object[] values) {
        float[] floats = new float[values.length];
        for (int i = 0; i < values.length; i++) {
            floats[i] = ((Double) values[i]).floatValue();
        }
        return floats;
    }

    private static int[] integers(Object[] values) {
        return Arrays.stream(values).mapToInt(value -> ((Long) value).intValue()).toArray();
    }
}
