package dev.tandem.cpu;

import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.simd.MatrixPacker;
import dev.tandem.cpu.topology.WorkerPool;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
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
        try (Checkpoint checkpoint = TestModels.open(family);
                WorkerPool workers = new WorkerPool(threads, false);
                Arena arena = Arena.ofShared()) {
            ModelConfig config = checkpoint.config();
            EnumMap<KvTier, KvStore> stores = new EnumMap<>(KvTier.class);
            for (KvTier tier : KvTier.values()) {
                stores.put(
                        tier,
                        new KvStore(tier, BLOCKS, config.layers(), config.kvHeads(), config.headDim(), type, arena));
            }
            MatrixPacker packer = new MatrixPacker(
                    arena, (count, body) -> IntStream.range(0, count).forEach(body));
            LlamaWeights weights = LlamaWeights.load(config, checkpoint.weights(), type, packer);
            LlamaForward forward = new LlamaForward(config, weights, stores, workers, threads, arena);
            Activations a = new Activations(config);
            int[] prompt = tokens(7, PROMPT);
            float[] all = new float[PROMPT * config.vocabulary()];
            for (int start = 0; start < PROMPT; start += chunk) {
                int end = Math.min(PROMPT, start + chunk);
                a.load(batch(prompt, start, end), forward.tileTokens(), 0);
                forward.embed(a);
                for (int layer = 0; layer < config.layers(); layer++) {
                    forward.preProjection(a, layer);
                    for (Activations.AttentionKind kind : Activations.AttentionKind.values()) {
                        forward.attention(a, layer, kind);
                    }
                    forward.postProjection(a, layer);
                }
                float[] logits = new float[a.rows * forward.logitsWidth()];
                forward.logits(a, logits);
                for (int row = 0; row < end - start; row++) {
                    System.arraycopy(
                            logits,
                            (neighbours + row) * forward.logitsWidth(),
                            all,
                            (start + row) * config.vocabulary(),
                            config.vocabulary());
                }
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
