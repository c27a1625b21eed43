package dev.tandem.model.weights;

import dev.tandem.model.config.ModelConfig;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.SplittableRandom;

/**
 * Seeded random bf16 weights for a configuration, for benchmarks in which only shapes matter. Matrices have variance
 * 1/columns, so that activations keep their scale through the layers; norms are near 1.
 */
public final class DummyWeights implements Weights {
    private static final ValueLayout.OfShort SHORT =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final ModelConfig config;
    private final long seed;
    private final Arena arena = Arena.ofShared();

    public DummyWeights(ModelConfig config, long seed) {
        this.config = config;
        this.seed = seed;
    }

    @Override
    public boolean contains(String name) {
        return switch (kind(name)) {
            case "lm_head" -> !config.tiedEmbeddings();
            case "q_norm", "k_norm" -> config.qkNorm();
            case "q_proj", "k_proj", "v_proj" -> !name.endsWith(".bias") || config.qkvBias();
            default -> !name.endsWith(".bias");
        };
    }

    @Override
    public Tensor tensor(String name) {
        int hidden = config.hidden();
        int queries = config.heads() * config.headDim();
        int keys = config.kvHeads() * config.headDim();
        return switch (kind(name)) {
            case "embed_tokens", "lm_head" -> random(name, config.vocabulary(), hidden);
            case "q_proj" -> name.endsWith(".bias") ? random(name, 1, queries) : random(name, queries, hidden);
            case "k_proj", "v_proj" -> name.endsWith(".bias") ? random(name, 1, keys) : random(name, keys, hidden);
            case "o_proj" -> random(name, hidden, queries);
            case "gate_proj", "up_proj" -> random(name, config.intermediate(), hidden);
            case "down_proj" -> random(name, hidden, config.intermediate());
            case "q_norm", "k_norm" -> random(name, 1, config.headDim());
            case "input_layernorm", "post_attention_layernorm", "norm" -> random(name, 1, hidden);
            default -> throw new IllegalArgumentException("there is no dummy tensor " + name);
        };
    }

    /** {@code model.layers.3.self_attn.q_proj.weight} is of kind {@code q_proj}. */
    private static String kind(String name) {
        String[] parts = name.split("\\.");
        return parts[parts.length - 2];
    }

    private Tensor random(String name, int rows, int columns) {
        boolean norm = name.contains("norm");
        float scale = norm ? 0.1f : (float) Math.sqrt(3.0 / columns);
        float centre = norm ? 1 : 0;
        SplittableRandom random = new SplittableRandom(seed ^ name.hashCode() * 0x9E3779B97F4A7C15L);
        long elements = (long) rows * columns;
        MemorySegment data = arena.allocate(2 * elements, 64);
        for (long i = 0; i < elements; i++) {
            float value = centre + scale * (float) (2 * random.nextDouble() - 1);
            data.set(SHORT, 2 * i, (short) (Float.floatToIntBits(value) >>> 16));
        }
        return Tensor.of(name, ElementType.BF16, rows, columns, data);
    }

    @Override
    public String origin() {
        return "dummy weights";
    }

    @Override
    public void close() {
        arena.close();
    }
}
