package dev.tandem.model.gguf;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.IntStream;

/** Writes GGUF files of fp32 tensors, whose values count up from a start of their own. */
final class GgufBuilder {
    private static final int ALIGNMENT = 32;

    private final Map<String, Object> metadata = new LinkedHashMap<>();
    private final Map<String, long[]> shapes = new LinkedHashMap<>();

    /** A model of one layer with hidden size 8, two heads of 4 over one KV head, and 10 tokens. */
    static GgufBuilder model(String architecture) {
        GgufBuilder file = new GgufBuilder()
                .set("general.architecture", architecture)
                .set(
                        "tokenizer.ggml.tokens",
                        IntStream.range(0, 10).mapToObj(i -> "t" + i).toArray());
        Map.of(
                        "embedding_length", 8,
                        "attention.head_count", 2,
                        "attention.head_count_kv", 1,
                        "block_count", 1,
                        "feed_forward_length", 6,
                        "context_length", 64)
                .forEach((key, value) -> file.set(architecture + "." + key, value));
        return file.tensor("token_embd.weight", 8, 10)
                .tensor("output_norm.weight", 8)
                .tensor("blk.0.attn_norm.weight", 8)
                .tensor("blk.0.attn_q.weight", 8, 8)
                .tensor("blk.0.attn_k.weight", 8, 4)
                .tensor("blk.0.attn_v.weight", 8, 4)
                .tensor("blk.0.attn_output.weight", 8, 8)
                .tensor("blk.0.ffn_norm.weight", 8)
                .tensor("blk.0.ffn_gate.weight", 8, 6)
                .tensor("blk.0.ffn_up.weight", 8, 6)
                .tensor("blk.0.ffn_down.weight", 6, 8);
    }

    /** Sets a metadata entry: an Integer, a Double, a String, or an array of strings. */
    GgufBuilder set(String key, Object value) {
        metadata.put(key, value);
        return this;
    }

    /** Adds a tensor; as in the file, the innermost dimension comes first. */
    GgufBuilder tensor(String name, long... shape) {
        shapes.put(name, shape);
        return this;
    }

    GgufBuilder without(String tensor) {
        shapes.remove(tensor);
        return this;
    }

    Path write(Path file) throws IOException {
        ByteBuffer out = ByteBuffer.allocate(1 << 18).order(ByteOrder.LITTLE_ENDIAN);
        out.putInt(0x46554747).putInt(3).putLong(shapes.size()).putLong(metadata.size());
        metadata.forEach((key, value) -> {
            string(out, key);
            switch (value) {
                case Integer number -> out.putInt(4).putInt(number);
                case Double number -> out.putInt(12).putDouble(number);
                case String text -> string(out.putInt(8), text);
                case Object[] texts -> {
                    out.putInt(9).putInt(8).putLong(texts.length);
                    for (Object text : texts) {
                        string(out, (String) text);
                    }
                }
                default -> throw new IllegalArgumentException(key + " is " + value);
            }
        });
        long offset = 0;
        for (Map.Entry<String, long[]> tensor : shapes.entrySet()) {
            string(out, tensor.getKey());
            out.putInt(tensor.getValue().length);
            for (long size : tensor.getValue()) {
                out.putLong(size);
            }
            out.putInt(0).putLong(offset);
            offset += aligned(Float.BYTES * elements(tensor.getValue()));
        }
        int start = 0;
        for (long[] shape : shapes.values()) {
            out.position((int) aligned(out.position()));
            for (int i = 0; i < elements(shape); i++) {
                out.putFloat(start + i);
            }
            start += 1000;
        }
        out.position((int) aligned(out.position()));
        byte[] bytes = new byte[out.position()];
        out.flip().get(bytes);
        return Files.write(file, bytes);
    }

    private static long elements(long[] shape) {
        long elements = 1;
        for (long size : shape) {
            elements *= size;
        }
        return elements;
    }

    private static long aligned(long at) {
        return (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }

    private static void string(ByteBuffer out, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        out.putLong(bytes.length).put(bytes);
    }
}
