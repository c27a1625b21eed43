package dev.tandem.model.weights;

import dev.tandem.model.config.ModelSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.SplittableRandom;

/**
 * Seeded random bf16 weights for a model, for benchmarks in which only shapes matter. Matrices have variance 1/columns,
 * so that activations keep their scale through the layers; norms are near 1.
 */
public final class DummyWeights implements Weights {
    private static final ValueLayout.OfShort SHORT =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final ModelSpec spec;
    private final long seed;
    private final Arena arena = Arena.ofShared();

    public DummyWeights(ModelSpec spec, long seed) {
        this.spec = spec;
        this.seed = seed;
    }

    @Override
    public boolean contains(String name) {
        Role role = role(name);
        return name.endsWith(".bias") ? role.hasBias(spec) : role.hasWeight(spec);
    }

    @Override
    public Tensor tensor(String name) {
        if (!contains(name)) {
            throw new IllegalArgumentException("there is no dummy tensor " + name);
        }
        Role.Shape shape = role(name).shape(spec);
        return name.endsWith(".bias") ? random(name, 1, shape.rows()) : random(name, shape.rows(), shape.columns());
    }

    /** {@code model.layers.3.self_attn.q_proj.weight} is a query projection. */
    private static Role role(String name) {
        return Arrays.stream(Role.values())
                .filter(role -> name.startsWith(role.part() + ".") || name.contains("." + role.part() + "."))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("there is no dummy tensor " + name));
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
