package dev.tandem.cpu.reference;

import dev.tandem.model.config.Activation;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.NormPlacement;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeScaling;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;

/**
 * Draws small specifications of decoders with random combinations of what {@link ModelSpec} can say. Executors are
 * compared on them with {@link ReferenceDecoder}.
 */
public final class RandomSpec {
    private static final int[] HEAD_DIMS = {16, 24, 64, 80, 96, 128, 192, 256};

    private RandomSpec() {}

    /**
     * Draws a specification.
     *
     * @param random of which it takes as many values as it needs
     */
    public static ModelSpec draw(SplittableRandom random) {
        int headDim = HEAD_DIMS[random.nextInt(HEAD_DIMS.length)];
        int kvHeads = random.nextInt(1, 4);
        int group = random.nextInt(1, 17);
        int heads = kvHeads * group;
        QkNorm norm = one(QkNorm.values(), random);
        NormPlacement norms = one(NormPlacement.values(), random);
        Activation activation = one(Activation.values(), random);
        double scale = LayerSpec.Attention.usualScale(random.nextBoolean() ? headDim : random.nextInt(8, 300));
        boolean bias = random.nextBoolean();
        int intermediate = random.nextInt(1, 200);
        int dims = random.nextBoolean() ? headDim : 2 * random.nextInt(1, headDim / 2 + 1);
        Rope.Rotary rotary = rotary(random, dims);
        Rope.Rotary ofWindows = random.nextInt(3) == 0 ? rotary(random, dims) : rotary;
        int window = random.nextBoolean() ? random.nextInt(1, 40) : 0;
        boolean skips = random.nextInt(3) == 0;
        List<LayerSpec> layers = new ArrayList<>();
        int count = random.nextInt(1, 4);
        for (int i = 0; i < count; i++) {
            boolean slides = random.nextBoolean();
            Rope rope = skips && i > 0 && random.nextBoolean() ? new Rope.None() : slides ? ofWindows : rotary;
            LayerSpec.Attention attention =
                    new LayerSpec.Attention(heads, kvHeads, headDim, scale, slides ? window : 0, rope, norm, bias);
            layers.add(new LayerSpec(attention, intermediate, activation, norms));
        }
        return new ModelSpec(
                "random",
                random.nextInt(8, 200),
                random.nextInt(2, 120),
                1024,
                Math.pow(10, -random.nextInt(5, 8)),
                random.nextInt(3) == 0 ? random.nextDouble(0.5, 8) : 1,
                random.nextBoolean(),
                layers,
                DataType.BFLOAT16,
                Set.of());
    }

    private static <T> T one(T[] of, SplittableRandom random) {
        return of[random.nextInt(of.length)];
    }

    private static Rope.Rotary rotary(SplittableRandom random, int dims) {
        RopeScaling scaling = switch (random.nextInt(5)) {
            case 0 -> new RopeScaling.Linear(random.nextDouble(1, 8));
            case 1 -> new RopeScaling.Llama3(8, 1, 4, random.nextInt(16, 256));
            case 2 ->
                new RopeScaling.Yarn(random.nextDouble(1, 8), 32, 1, random.nextInt(16, 256), random.nextBoolean());
            case 3 -> {
                float[] divisors = new float[dims / 2];
                for (int i = 0; i < divisors.length; i++) {
                    divisors[i] = (float) random.nextDouble(1, 10);
                }
                yield new RopeScaling.Divisors(divisors);
            }
            default -> RopeScaling.NONE;
        };
        double magnitude = random.nextInt(3) == 0 ? random.nextDouble(1, 1.5) : 1;
        return new Rope.Rotary(dims, random.nextBoolean() ? 10_000 : 1_000_000, scaling, magnitude);
    }
}
