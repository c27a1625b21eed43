package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.TestModels.Golden;
import dev.tandem.cpu.reference.RandomSpec;
import dev.tandem.cpu.reference.ReferenceDecoder;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.TokenizerSource;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.GenerationDefaults;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.weights.DummyWeights;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The CPU executor computes any specification as {@link ReferenceDecoder} does. {@code -Dtandem.random.specs=2000}
 * tries more of them.
 */
class RandomSpecTest {
    private static final int SPECS = Integer.getInteger("tandem.random.specs", 500);
    private static final int BLOCKS = 16;

    static IntStream seeds() {
        return IntStream.range(0, SPECS);
    }

    static Stream<String> families() {
        return TestModels.FAMILIES.stream();
    }

    /** Prompts go through both attention sites, in chunks of random length. */
    @ParameterizedTest
    @MethodSource("seeds")
    void executorMatchesReference(int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        ModelSpec spec = RandomSpec.draw(random);
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
