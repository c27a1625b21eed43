package dev.tandem.text;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.ObjectMapper;

/** Builds small tokenizer files for tests. */
public final class TokenizerFiles {
    private static final String CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|";
    private static final String REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    static final String LLAMA3 = CONTRACTIONS + "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" + REST;
    static final String QWEN2 = CONTRACTIONS + "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" + REST;

    private TokenizerFiles() {}

    /** A tokenizer that splits by a pattern and has one token for all pieces, so that encoding costs little else. */
    static String splitting(String pattern) {
        Map<String, Object> root = new LinkedHashMap<>();
        root.put("version", "1.0");
        root.put("added_tokens", List.of());
        root.put(
                "pre_tokenizer",
                Map.of("type", "Split", "pattern", Map.of("Regex", pattern), "behavior", "Isolated", "invert", false));
        root.put("model", Map.of("type", "WordLevel", "vocab", Map.of("?", 0), "unk_token", "?"));
        return new ObjectMapper().writeValueAsString(root);
    }
}
