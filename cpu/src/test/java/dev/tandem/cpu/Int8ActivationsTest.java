package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.cpu.simd.Int8Kernel;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.ObjectMapper;

/**
 * What int8 activations change in a real model: the Kullback-Leibler divergence of the next token's distribution from
 * the one with fp32 activations, over 640 tokens of prose and code. The property {@code tandem.coder.model} names a
 * file of Qwen2.5-Coder, which {@code tandem pull qwen2.5-coder:0.5b} downloads.
 *
 * <p>The file is large, so the test is excluded by default.
 */
@Tag("slow")
class Int8ActivationsTest {
    private static final double MAX_DIVERGENCE = 1e-2;
    private static final int CHUNK = 64;

    @Test
    void hardlyChangeTheDistributionOfTheNextToken() throws Exception {
        String file = System.getProperty("tandem.coder.model", "");
        assumeFalse(file.isEmpty(), "the property tandem.coder.model is not set");
        assumeTrue(Int8Kernel.find().isPresent(), Int8Kernel::obstacle);
        int[] tokens = new ObjectMapper()
                .readTree(Files.readAllBytes(Path.of("src/test/resources/real-text/qwen2.5-coder.json")))
                .get("tokens")
                .valueStream()
                .mapToInt(node -> node.asInt())
                .toArray();
        int same = 0;
        double divergence = 0;
        try (ForwardPass exact = pass(file, ActivationPrecision.EXACT);
                ForwardPass int8 = pass(file, ActivationPrecision.INT8)) {
            int vocabulary = exact.config.vocabulary();
            for (int start = 0; start < tokens.length; start += CHUNK) {
                float[] expected = exact.logits(batch(tokens, start));
                float[] actual = int8.logits(batch(tokens, start));
                for (int at = 0; at < expected.length; at += vocabulary) {
                    divergence += divergence(expected, actual, at, vocabulary) / tokens.length;
                    same += top(expected, at, vocabulary) == top(actual, at, vocabulary) ? 1 : 0;
                }
            }
        }
        System.out.printf("int8 activations: divergence %.2e, same top token at %d%n", divergence, same);
        assertThat(divergence).isBetween(0.0, MAX_DIVERGENCE);
    }

    private static ForwardPass pass(String file, ActivationPrecision precision) {
        Checkpoint checkpoint = Checkpoint.open(Path.of(file), LoadFormat.AUTO, 0);
        return new ForwardPass(checkpoint, DataType.BFLOAT16, 64, 2, precision);
    }

    private static SubBatch batch(int[] tokens, int start) {
        int[] chunk = Arrays.copyOfRange(tokens, start, Math.min(tokens.length, start + CHUNK));
        int[] blocks = IntStream.range(0, 64).toArray();
        return new SubBatch(List.of(new Chunk(1, start, chunk, blocks, AttentionSite.GPU_FROM_GPU, Optional.empty())));
    }

    /** The divergence of one distribution from another, in nats. */
    private static double divergence(float[] expected, float[] actual, int from, int count) {
        double normExpected = logSum(expected, from, count);
        double normActual = logSum(actual, from, count);
        double sum = 0;
        for (int i = from; i < from + count; i++) {
            double log = expected[i] - normExpected;
            sum += Math.exp(log) * (log - (actual[i] - normActual));
        }
        return sum;
    }

    private static double logSum(float[] logits, int from, int count) {
        double max = logits[top(logits, from, count)];
        double sum = 0;
        for (int i = from; i < from + count; i++) {
            sum += Math.exp(logits[i] - max);
        }
        return max + Math.log(sum);
    }

    private static int top(float[] logits, int from, int count) {
        int top = from;
        for (int i = from; i < from + count; i++) {
            top = logits[i] > logits[top] ? i : top;
        }
        return top;
    }
}
