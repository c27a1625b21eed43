package dev.tandem.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.kernels.AttentionKernelTest.Pool;
import dev.tandem.cuda.step.StepBuffer;
import dev.tandem.cuda.step.StepLayout;
import dev.tandem.model.config.DataType;
import java.util.Arrays;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Contexts of up to 131,072 tokens and vocabularies of up to 256,000, compared with scalar references. Result buffers
 * hold NaN before each launch.
 */
@Tag("gpu")
class LargeSizesKernelTest {
    private static final long SEED = 20261;
    private static final int MAX_CONTEXT = 131_072;

    /**
     * Decode attention has four warps per thread block for the first shape, and two for heads of 256 in groups of 16.
     */
    static Stream<ModelShape> decodeShapes() {
        return Stream.of(
                GpuRig.shape(2, 1, 64, 128, 128, 301, DataType.BFLOAT16),
                GpuRig.shape(16, 1, 256, 320, 352, 301, DataType.FLOAT16));
    }

    /**
     * A warp reads 32 entries of the block table at a time. A thread block with four warps needs several reads above
     * 2,048 tokens, and one with two warps above 1,024.
     */
    @ParameterizedTest
    @MethodSource("decodeShapes")
    void decodeAttentionOverLongContexts(ModelShape shape) {
        assertThat(shape.decodeWarps()).isEqualTo(shape.headWidth() == 256 ? 2 : 4);
        int[] lengths = {2047, 2049, 4097, shape.headWidth() == 256 ? 20_001 : MAX_CONTEXT};
        int kvHeads = shape.config().kvHeads();
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            Pool pool = Pool.of(rig, lengths);
            float[] q = AttentionKernelTest.queries(rig, lengths.length);
            DeviceBuffer queries = rig.putHalves(q);
            DeviceBuffer cache = rig.putHalves(pool.values());
            int tables =
                    Arrays.stream(pool.tables()).mapToInt(table -> table.length).sum();
            int grid = rig.device.multiprocessors() * rig.kernels.decodeAttention.residentBlocks();
            long quads = (long) grid * shape.config().group() * shape.headWidth() / 4;
            DeviceBuffer partial = rig.poisoned(16 * quads);
            DeviceBuffer sums = rig.poisoned(8 * quads);
            try (StepBuffer step = new StepBuffer(rig.device, 64, 64, 64, 1, GpuRig.tables(tables), 0, "test")) {
                for (int blocks : new int[] {1, 7, grid}) {
                    step.clear();
                    for (int row = 0; row < lengths.length; row++) {
                        step.row(row, 0, lengths[row] - 1);
                        step.decode(lengths[row], GpuRig.table(step, pool.tables()[row]), kvHeads, 0);
                    }
                    step.spread(blocks, 1, kvHeads, 0);
                    step.upload(rig.stream);
                    DeviceBuffer out = rig.poisoned(2L * lengths.length * shape.queries());
                    rig.kernels.decodeAttention.launch(
                            rig.stream,
                            grid,
                            1,
                            queries.address(),
                            cache.address(),
                            step.tables(0),
                            step.sequences(),
                            step.header(),
                            shape.scoreScale(),
                            out.address(),
                            partial.address(),
                            sums.address(),
                            0,
                            0,
                            0,
                            0L,
                            0,
                            0,
                            0);
                    float[] actual = rig.halves(out, lengths.length * shape.queries());
                    for (int row = 0; row < lengths.length; row++) {
                        AttentionKernelTest.check(rig, pool, q, actual, row, row, lengths[row]);
                    }
                }
            }
        }
    }

    /** Heads of 64 and 128, which have a WGMMA kernel on compute capability 9.0, and of 96, which have none. */
    static Stream<ModelShape> promptShapes() {
        return Stream.of(
                GpuRig.shape(2, 1, 64, 128, 128, 301, DataType.BFLOAT16),
                GpuRig.shape(7, 1, 128, 128, 128, 301, DataType.FLOAT16),
                GpuRig.shape(5, 1, 96, 320, 352, 301, DataType.BFLOAT16));
    }

    @ParameterizedTest
    @MethodSource("promptShapes")
    void prefillChunksAfterLongContexts(ModelShape shape) {
        int[] starts = {518, 2047, 16_385, MAX_CONTEXT - 2};
        int[] counts = {40, 3, 2, 2};
        int[] lengths = IntStream.range(0, starts.length)
                .map(i -> starts[i] + counts[i])
                .toArray();
        int rows = Arrays.stream(counts).sum();
        int kvHeads = shape.config().kvHeads();
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            Pool pool = Pool.of(rig, lengths);
            float[] q = AttentionKernelTest.queries(rig, rows);
            DeviceBuffer queries = rig.putHalves(q);
            DeviceBuffer cache = rig.putHalves(pool.values());
            int tables =
                    Arrays.stream(pool.tables()).mapToInt(table -> table.length).sum();
            try (StepBuffer step = new StepBuffer(rig.device, 64, 64, 64, 64, GpuRig.tables(tables), 0, "test")) {
                step.clear();
                for (int i = 0, row = 0; i < counts.length; row += counts[i++]) {
                    StepBuffer.Table table = GpuRig.table(step, pool.tables()[i]);
                    StepLayout.tiles(step, row, counts[i], starts[i], table, shape.tileTokens());
                }
                step.upload(rig.stream);
                DeviceBuffer finished = rig.zeros(4L * step.tileCount() * kvHeads);
                for (int splits : new int[] {1, 8}) {
                    DeviceBuffer parts = rig.poisoned(4L
                            * step.tileCount()
                            * kvHeads
                            * splits
                            * KernelConstants.PREFILL_THREADS
                            * shape.partialValues());
                    DeviceBuffer out = rig.poisoned(2L * rows * shape.queries());
                    rig.kernels.prefillAttention.launch(
                            rig.stream,
                            rig.kernels.prefillBlocks(
                                    kvHeads * step.tileCount() * splits, rig.device.multiprocessors()),
                            1,
                            queries.address(),
                            cache.address(),
                            step.tables(0),
                            step.tiles(),
                            shape.scoreScale(),
                            out.address(),
                            Integer.MAX_VALUE,
                            0,
                            splits,
                            parts.address(),
                            finished.address(),
                            step.tileCount(),
                            0L,
                            0);
                    float[] actual = rig.halves(out, rows * shape.queries());
                    for (int i = 0, row = 0; i < counts.length; i++) {
                        for (int token = 0; token < counts[i]; token++, row++) {
                            AttentionKernelTest.check(rig, pool, q, actual, row, i, starts[i] + token + 1);
                        }
                    }
                }
            }
        }
    }

    /**
     * The GPU sums probabilities in fixed point, and the reference in double precision. A token has about 1e-5 of the
     * probability mass, so the reference may choose a neighbour of the GPU's token. The tolerance allows that.
     */
    @ParameterizedTest
    @ValueSource(ints = {32_001, 128_256, 256_000})
    void samplingFromLargeVocabularies(int vocabulary) {
        ModelShape shape = GpuRig.shape(2, 1, 64, 128, 128, vocabulary, DataType.BFLOAT16);
        double tolerance = 3.0 / vocabulary;
        int draws = 8;
        try (GpuRig rig = new GpuRig(shape, SEED);
                StepBuffer step = new StepBuffer(rig.device, 64, 64, 64, 1, GpuRig.tables(1), 1000, "test")) {
            int width = shape.vocabulary();
            float[] logits = rig.floats(4 * width, 4);
            for (int row = 0; row < 4; row++) {
                Arrays.fill(logits, row * width + vocabulary, (row + 1) * width, 1000);
            }
            logits[width + vocabulary - 1] = 50;
            DeviceBuffer values = rig.put(logits);
            DeviceBuffer chosen = rig.poisoned(16);
            rig.kernels.argmax.launch(
                    rig.stream,
                    4,
                    KernelConstants.ARGMAX_PARTS,
                    values.address(),
                    rig.poisoned(32L * KernelConstants.ARGMAX_PARTS).address(),
                    rig.zeros(16).address(),
                    chosen.address());
            int[] best = rig.ints(chosen, 4);
            assertThat(best[1]).as("the last token").isEqualTo(vocabulary - 1);
            for (int row : new int[] {0, 2, 3}) {
                assertThat(logits[row * width + best[row]]).isEqualTo(max(logits, row * width, vocabulary));
            }
            for (int i = 0; i < draws; i++) {
                double uniform = (i + 0.5) / draws;
                step.clear();
                step.draw(0, KernelTest.draw(1.5, 1, 0, uniform, 0), KernelTest.NO_ADJUSTMENTS);
                step.draw(2, KernelTest.draw(0.8, 1, 0, uniform, 5), KernelTest.NO_ADJUSTMENTS);
                step.draw(3, KernelTest.draw(1, 0.6, 0, uniform, 0), KernelTest.NO_ADJUSTMENTS);
                step.upload(rig.stream);
                DeviceBuffer tokens = rig.put(best);
                rig.kernels.sample.launch(
                        rig.stream, 3, 1, values.address(), step.draws(), tokens.address(), 3, 0, 0L, 0);
                int[] sampled = rig.ints(tokens, 4);
                String what = "vocabulary " + vocabulary + ", draw " + uniform + ", seed " + SEED;
                assertThat(sampled[2])
                        .as(what)
                        .isEqualTo(KernelTest.expected(logits, 2 * width, vocabulary, 0.8, 5, 1, 0, uniform));
                assertThat(sampled[0])
                        .as(what)
                        .isBetween(
                                KernelTest.expected(logits, 0, vocabulary, 1.5, 0, 1, 0, uniform - tolerance),
                                KernelTest.expected(logits, 0, vocabulary, 1.5, 0, 1, 0, uniform + tolerance));
                assertThat(sampled[3])
                        .as(what)
                        .isBetween(
                                KernelTest.expected(logits, 3 * width, vocabulary, 1, 0, 0.6, 0, uniform - tolerance),
                                KernelTest.expected(logits, 3 * width, vocabulary, 1, 0, 0.6, 0, uniform + tolerance));
            }
        }
    }

    private static float max(float[] logits, int from, int count) {
        float max = logits[from];
        for (int i = 1; i < count; i++) {
            max = Math.max(max, logits[from + i]);
        }
        return max;
    }
}
