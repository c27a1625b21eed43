package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.TestModels.Golden;
import dev.tandem.cpu.reference.ReferenceDecoder;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.TokenizerSource;
import dev.tandem.model.config.Activation;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.GenerationDefaults;
import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.NormPlacement;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeScaling;
import dev.tandem.model.weights.DummyWeights;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The CPU executor computes any specification as {@link ReferenceDecoder} does. {@code -Dtandem.random.specs=500} tries
 * more of them.
 */
class RandomSpecTest {
    private static final int[] HEAD_DIMS = {16, 24, 64, 80, 96, 128, 192, 256};
    private static final int SPECS = Integer.getInteger("tandem.random.specs", 40);
    private static final int BLOCKS = 16;

    static IntStream seeds() {
        return IntStream.range(0, SPECS);
    }

    static Stream<String> families() {
        return TestModels.FAMILIES.stream();
    }

    private static ModelSpec random(SplittableRandom random) {
        int headDim = HEAD_DIMS[random.nextInt(HEAD_DIMS.length)];
        int kvHeads = random.nextInt(1, 4);
        int group = random.nextInt(1, 17);
        int heads = kvHeads * group;
        QkNorm norm = QkNorm.values()[random.nextInt(QkNorm.values().length)];
        NormPlacement norms = NormPlacement.values()[random.nextInt(NormPlacement.values().length)];
        Activation activation = Activation.values()[random.nextInt(Activation.values().length)];
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

    /** Prompts go through both attention sites, in chunks of random length. */
    @ParameterizedTest
    @MethodSource("seeds")
    void executorMatchesReference(int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        ModelSpec spec = random(random);
        int[] prompt = random.ints(random.nextInt(1, 48), 0, spec.vocabulary()).toArray();
        int chunk = random.nextInt(1, prompt.length + 1);
        AttentionSite site = random.nextBoolean() ? AttentionSite.GPU_FROM_GPU : AttentionSite.CPU_FROM_HOST;
        Checkpoint checkpoint = new Checkpoint(
                "random",
                spec,
                new DummyWeights(spec, seed),
                GenerationDefaults.NONE,
                new TokenizerSource.Directory(Path.of("none")));
        try (ForwardPass model = new ForwardPass(checkpoint, DataType.FLOAT32, BLOCKS, 2)) {
            double[][] expected = new ReferenceDecoder(spec, checkpoint.weights()).logits(prompt);
            int[] blocks = {3, 0, 9, 4, 1};
            for (int start = 0; start < prompt.length; start += chunk) {
                int[] tokens = Arrays.copyOfRange(prompt, start, Math.min(prompt.length, start + chunk));
                float[] logits = model.logits(
                        new SubBatch(List.of(new Chunk(1, start, tokens, blocks, site, Optional.empty()))));
                assertThat(error(logits, expected, start))
                        .as("seed %d, positions from %d, %s", seed, start, spec)
                        .isLessThan(1e-4);
            }
        }
    }

    /** So the reference itself is right: it computes what transformers does. */
    @ParameterizedTest
    @MethodSource("families")
    void referenceMatchesTransformers(String family) {
        Golden golden = Golden.of(TestModels.directory(family));
        try (Checkpoint checkpoint = TestModels.open(family)) {
            double[][] logits = new ReferenceDecoder(checkpoint.spec(), checkpoint.weights()).logits(golden.prompt());
            assertThat(error(golden.logits(), logits, 0)).as(family).isLessThan(1e-4);
        }
    }

    /** Relative L2 of some positions' logits. */
    private static double error(float[] actual, double[][] expected, int from) {
        int vocabulary = expected[0].length;
        double difference = 0;
        double norm = 0;
        for (int i = 0; i < actual.length; i++) {
            double value = expected[from + i / vocabulary][i % vocabulary];
            difference += (actual[i] - value) * (actual[i] - value);
            norm += value * value;
        }
        return Math.sqrt(difference / norm);
    }
}
