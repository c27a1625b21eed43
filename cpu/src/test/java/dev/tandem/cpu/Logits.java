package dev.tandem.cpu;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.config.DataType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;

/**
 * Computes the logits of every position of one prompt under given conditions. {@link #main} prints a digest of them, so
 * that a test can compare Java virtual machines with different options.
 *
 * @param chunk prompt tokens per forward pass
 * @param neighbours tokens of other sequences in each forward pass
 */
record Logits(String family, DataType type, int threads, int chunk, AttentionSite site, int neighbours) {
    static final int PROMPT = 23;
    private static final int BLOCKS = 64;
    /** Rounds after which the JIT compiler's last tier, with its threshold of 15,000 loops and calls, has run. */
    static final int COMPILING_ROUNDS = 150;

    /** Arguments: family, type, rounds. Prints the digests of the first and the last round. */
    public static void main(String[] arguments) {
        Logits logits =
                new Logits(arguments[0], DataType.valueOf(arguments[1]), 1, PROMPT, AttentionSite.GPU_FROM_GPU, 0);
        int rounds = Integer.parseInt(arguments[2]);
        int first = 0;
        int last = 0;
        for (int round = 0; round < rounds; round++) {
            last = Arrays.hashCode(bits(logits.compute()));
            first = round == 0 ? last : first;
        }
        System.out.println(first + " " + last);
    }

    static int[] bits(float[] values) {
        return IntStream.range(0, values.length)
                .map(i -> Float.floatToRawIntBits(values[i]))
                .toArray();
    }

    private static int[] tokens(int seed, int count) {
        return new SplittableRandom(seed).ints(count, 3, 301).toArray();
    }

    /** Returns the logits: [positions, vocabulary]. */
    float[] compute() {
        try (ForwardPass model = new ForwardPass(TestModels.open(family), type, BLOCKS, threads)) {
            int vocabulary = model.config.vocabulary();
            int[] prompt = tokens(7, PROMPT);
            float[] all = new float[PROMPT * vocabulary];
            for (int start = 0; start < PROMPT; start += chunk) {
                int end = Math.min(PROMPT, start + chunk);
                float[] logits = model.logits(batch(prompt, start, end));
                System.arraycopy(logits, neighbours * vocabulary, all, start * vocabulary, (end - start) * vocabulary);
            }
            return all;
        }
    }

    /** The neighbours come first, so that they shift the tested rows within the kernels' groups of rows. */
    private SubBatch batch(int[] prompt, int start, int end) {
        List<Chunk> chunks = new ArrayList<>();
        for (int i = 0; i < neighbours; i++) {
            int[] blocks = {20 + i};
            chunks.add(new Chunk(100 + i, 0, tokens(i, 1), blocks, AttentionSite.GPU_FROM_GPU, Optional.empty()));
        }
        Optional<TokenSampler> sampler = end - start == 1 && start > 0
                ? Optional.of(new TokenSampler(EngineHarness.greedy(1), prompt, Set.of(), 1))
                : Optional.empty();
        int[] blocks = {9, 2};
        chunks.add(new Chunk(1, start, Arrays.copyOfRange(prompt, start, end), blocks, site, sampler));
        return new SubBatch(chunks);
    }
}
