package dev.tandem.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.tandem.cpu.reference.ReferenceOps;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.forward.SmPartition;
import dev.tandem.cuda.step.StepBuffer;
import dev.tandem.cuda.step.StepLayout;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeFrequencies;
import dev.tandem.model.config.SlidingWindow;
import java.util.Arrays;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * RoPE, the KV store and attention over paged KV, compared with scalar references. Lengths are odd, and result buffers
 * hold NaN before each launch.
 */
@Tag("gpu")
public class AttentionKernelTest {
    private static final long SEED = 20260;
    /** One token, a block, and windows that end within a block and within a stage. */
    private static final int[] WINDOWS = {1, 16, 33, 100, 500};

    public static Stream<ModelShape> shapes() {
        return KernelTest.shapes();
    }

    /** Index of a KV head in the first layer of a block, in 16-bit elements. */
    private static int head(ModelShape shape, int block, int head) {
        int layerBlock = block * shape.config().layers();
        return (layerBlock * shape.config().kvHeads() + head) * 2 * ModelShape.BLOCK_TOKENS * shape.headWidth();
    }

    /** Index of a value of K in the KV pool, in 16-bit elements. prelude.cu defines the layout. */
    private static int keyAt(ModelShape shape, int block, int head, int token, int dimension) {
        return head(shape, block, head) + token * shape.headWidth() + dimension;
    }

    /** Index of a value of V in the KV pool, in 16-bit elements. */
    private static int valueAt(ModelShape shape, int block, int head, int token, int dimension) {
        int tile = ModelShape.BLOCK_TOKENS * shape.headWidth();
        return head(shape, block, head) + tile + (token / 2 * shape.headWidth() + dimension) * 2 + token % 2;
    }

    /** Adds heads whose 25 quads are no power of two. */
    static Stream<ModelShape> ropeShapes() {
        return Stream.concat(
                Stream.concat(shapes(), Stream.of(GpuRig.shape(3, 3, 100, 320, 352, 301, DataType.BFLOAT16))),
                KernelTest.variants());
    }

    /**
     * The input is either split-K partial sums, or a GEMM result with bias and with norms of q and k, per head or over
     * all heads; a model with norms over all heads has them in both. Each rotation is applied. KV slots, in order: a
     * single odd one, none, a single even one, a prompt that begins at an odd one, a second prompt, and a single one
     * that begins a block.
     */
    @ParameterizedTest
    @MethodSource("ropeShapes")
    void ropeAndKvStore(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            int[] slots = {17, -1, 78, 29, 30, 31, 32, 33, 34, 51, 52, 96};
            int[] positions = {0, 77, 1023, 13, 14, 15, 16, 17, 18, 3, 4, 32};
            int rows = slots.length;
            int rotations = shape.variant().rotations().size();
            DeviceBuffer angles =
                    rig.poisoned(4L * rows * rotations * shape.config().headDim());
            checkEmbedding(rig, shape, positions, angles);
            int length = rows * shape.qkv();
            int width = shape.headWidth();
            int dim = shape.config().headDim();
            float[] partials = rig.floats(2 * length, 1);
            float[] product = rig.halves(length, 1);
            float[] bias = rig.floats(shape.qkv(), 1);
            for (int i = 0; i < length; i++) {
                boolean real = i % width < dim;
                partials[i] = real ? partials[i] : 0;
                partials[length + i] = real ? partials[length + i] : 0;
                product[i] = real ? product[i] : 0;
                bias[i % shape.qkv()] = real ? bias[i % shape.qkv()] : 0;
            }
            float[] sums = new float[length];
            float[] biased = new float[length];
            for (int i = 0; i < length; i++) {
                sums[i] = partials[i] + partials[length + i];
                biased[i] = product[i] + bias[i % shape.qkv()];
            }
            boolean wholeRow = shape.variant().qkNorm() == QkNorm.WHOLE_ROW;
            float[] queryNorm = heads(rig, shape, wholeRow ? shape.config().heads() : 1);
            float[] keyNorm = heads(rig, shape, wholeRow ? shape.config().kvHeads() : 1);
            for (int rotation = 0; rotation < rotations; rotation++) {
                RopeStore ropeStore = new RopeStore(rig, shape, slots, positions, rotation, angles.address());
                ropeStore.check(
                        rig.put(partials).address(),
                        2,
                        0L,
                        0L,
                        sums,
                        wholeRow ? queryNorm : null,
                        wholeRow ? keyNorm : null);
                ropeStore.check(
                        0L, 0, rig.putHalves(product).address(), rig.put(bias).address(), biased, queryNorm, keyNorm);
            }
        }
    }

    /** Weights of norms of so many heads, each padded to its width. */
    private static float[] heads(GpuRig rig, ModelShape shape, int heads) {
        float[] weights = rig.floats(heads * shape.headWidth(), 1);
        for (int i = 0; i < weights.length; i++) {
            weights[i] = i % shape.headWidth() < shape.config().headDim() ? weights[i] : 0;
        }
        return weights;
    }

    private static void checkEmbedding(GpuRig rig, ModelShape shape, int[] positions, DeviceBuffer angles) {
        int rows = positions.length;
        int hidden = shape.hidden();
        // -2 and -3 stand for tokens 1 and 2 that the step before sampled; token 2 is NaN (-1), which reads row 0
        int[] tokenIds = {-2, 0, -3, 1, 2, 3, 4, 5, 6, 7, 8, 1};
        int[] tokens = {9, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1};
        DeviceBuffer table = rig.putHalves(rig.halves(10 * hidden, 1));
        DeviceBuffer residual = rig.poisoned(4L * rows * hidden);
        rig.kernels.embed.launch(
                rig.stream,
                rows,
                1,
                rig.put(tokenIds).address(),
                rig.put(new int[] {7, 9, -1}).address(),
                rig.put(positions).address(),
                table.address(),
                rig.put(shape.variant().rotationTable(shape.config().headDim())).address(),
                residual.address(),
                angles.address(),
                Integer.MAX_VALUE,
                0L,
                0L,
                0L);
        float[] embedded = rig.floats(residual, rows * hidden);
        float[] expected = rig.halves(table, 10 * hidden);
        for (int i = 0; i < expected.length; i++) {
            expected[i] *= (float) shape.variant().embeddingScale();
        }
        for (int row = 0; row < rows; row++) {
            assertThat(Arrays.copyOfRange(embedded, row * hidden, (row + 1) * hidden))
                    .isEqualTo(Arrays.copyOfRange(expected, tokens[row] * hidden, (tokens[row] + 1) * hidden));
        }
    }

    private record RopeStore(GpuRig rig, ModelShape shape, int[] slots, int[] positions, int rotation, long angles) {
        /** @param x q, k and v before norm and RoPE, [rows, qkv] */
        void check(long partials, int splits, long product, long bias, float[] x, float[] queryNorm, float[] keyNorm) {
            int rows = slots.length;
            int heads = shape.config().heads();
            int kvHeads = shape.config().kvHeads();
            int dim = shape.config().headDim();
            int width = shape.headWidth();
            int blocks = 7;
            DeviceBuffer queries = rig.poisoned(2L * rows * shape.queries());
            DeviceBuffer cache = rig.poisoned(blocks * shape.blockBytes());
            DeviceBuffer scales = rig.poisoned(4L * rows * 2);
            rig.kernels.qkScales.ifPresent(kernel ->
                    kernel.launch(rig.stream, rows, 2, partials, splits, rows, product, bias, 1e-5f, scales.address()));
            rig.kernels.ropeStore.launch(
                    rig.stream,
                    rows,
                    Kernels.ropeBlocks(shape),
                    partials,
                    splits,
                    rows,
                    product,
                    bias,
                    address(queryNorm),
                    address(keyNorm),
                    1e-5f,
                    angles,
                    rig.put(slots).address(),
                    queries.address(),
                    cache.address(),
                    Integer.MAX_VALUE,
                    0,
                    Integer.MAX_VALUE,
                    0L,
                    0,
                    Integer.MAX_VALUE,
                    0,
                    0L,
                    rotation,
                    scales.address());
            float[] q = rig.halves(queries, rows * shape.queries());
            float[] kv = rig.halves(cache, (int) (blocks * shape.blockBytes() / 2));
            checkZero(kv, 35, 48);
            checkZero(kv, 53, 64);
            checkZero(kv, 97, 112);
            for (int row = 0; row < rows; row++) {
                for (int head = 0; head < heads + 2 * kvHeads; head++) {
                    int slot = slots[row];
                    if (head >= heads && slot < 0) {
                        continue;
                    }
                    int kvHead = (head - heads) % kvHeads;
                    float[] actual = new float[width];
                    for (int d = 0; d < width; d++) {
                        actual[d] = head < heads
                                ? q[(row * heads + head) * width + d]
                                : head < heads + kvHeads
                                        ? kv[keyAt(shape, slot / 16, kvHead, slot % 16, d)]
                                        : kv[valueAt(shape, slot / 16, kvHead, slot % 16, d)];
                    }
                    int from = row * shape.qkv() + head * width;
                    boolean isQuery = head < heads;
                    double[] expected = head < heads + kvHeads
                            ? rotated(normed(x, row, head, isQuery ? queryNorm : keyNorm), positions[row])
                            : widened(Arrays.copyOfRange(x, from, from + dim));
                    assertThat(GpuRig.error(Arrays.copyOf(actual, dim), expected))
                            .as("splits %d row %d head %d", splits, row, head)
                            .isLessThan(KernelTest.rounding(shape));
                    for (int d = dim; d < width; d++) {
                        assertThat(actual[d]).as("padding").isZero();
                    }
                }
            }
        }

        /** Behind the last stored token, V is zero to the end of its block, whatever the block held before. */
        private void checkZero(float[] kv, int firstSlot, int endSlot) {
            for (int slot = firstSlot; slot < endSlot; slot++) {
                for (int head = 0; head < shape.config().kvHeads(); head++) {
                    for (int d = 0; d < shape.headWidth(); d++) {
                        assertThat(kv[valueAt(shape, slot / 16, head, slot % 16, d)])
                                .as("V of slot %d, head %d", slot, head)
                                .isZero();
                    }
                }
            }
        }

        /** A head of q or k after its norm, if there is one, which may be over all heads of its kind. */
        private float[] normed(float[] x, int row, int head, float[] norm) {
            int dim = shape.config().headDim();
            int width = shape.headWidth();
            int from = row * shape.qkv() + head * width;
            float[] values = Arrays.copyOfRange(x, from, from + dim);
            if (norm == null) {
                return values;
            }
            int heads = norm.length / width;
            int first = heads == 1
                    ? head
                    : head < shape.config().heads() ? 0 : shape.config().heads();
            float[] all = new float[heads * dim];
            float[] weights = new float[heads * dim];
            for (int i = 0; i < all.length; i++) {
                all[i] = x[row * shape.qkv() + (first + i / dim) * width + i % dim];
                weights[i] = norm[i / dim * width + i % dim];
            }
            double[] normed = ReferenceOps.rmsNorm(all, weights, 1e-5);
            for (int i = 0; i < dim; i++) {
                values[i] = (float) normed[(head - first) * dim + i];
            }
            return values;
        }

        private double[] rotated(float[] head, int position) {
            Rope.Rotary rotary = (Rope.Rotary) shape.variant().rotations().get(rotation);
            double[] rotated = ReferenceOps.rotate(head, RopeFrequencies.of(rotary, head.length), position);
            return Arrays.stream(rotated)
                    .map(value -> value * rotary.magnitude())
                    .toArray();
        }

        private static double[] widened(float[] x) {
            double[] values = new double[x.length];
            for (int i = 0; i < x.length; i++) {
                values[i] = x[i];
            }
            return values;
        }

        private long address(float[] values) {
            return values == null ? 0L : rig.put(values).address();
        }
    }

    /** A pool of random KV, and the block tables of sequences, in random order. */
    record Pool(ModelShape shape, float[] values, int[][] tables) {
        static Pool of(GpuRig rig, int... lengths) {
            int blocks =
                    Arrays.stream(lengths).map(length -> (length + 15) / 16).sum() + 3;
            int[] order = IntStream.range(0, blocks).toArray();
            for (int i = blocks - 1; i > 0; i--) {
                int j = rig.random.nextInt(i + 1);
                int held = order[i];
                order[i] = order[j];
                order[j] = held;
            }
            int[][] tables = new int[lengths.length][];
            int next = 0;
            for (int i = 0; i < lengths.length; i++) {
                int count = (lengths[i] + 15) / 16;
                tables[i] = Arrays.copyOfRange(order, next, next + count);
                next += count;
            }
            float[] values = rig.halves((int) (blocks * rig.shape.blockBytes() / 2), 1);
            for (int i = 0; i < values.length; i++) {
                // padding of a head is zero in K and V
                int width = rig.shape.headWidth();
                int tile = 16 * width;
                int d = i / tile % 2 == 0 ? i % width : i % (2 * width) / 2;
                values[i] = d < rig.shape.config().headDim() ? values[i] : 0;
            }
            return new Pool(rig.shape, values, tables);
        }

        /** @param first the first token that the query sees; {@code tokens} is behind the last one */
        double[] attention(float[] query, int sequence, int kvHead, int first, int tokens) {
            int dim = shape.config().headDim();
            float[][] keys = new float[tokens - first][dim];
            float[][] vectors = new float[tokens - first][dim];
            for (int t = first; t < tokens; t++) {
                int block = tables[sequence][t / 16];
                for (int d = 0; d < dim; d++) {
                    keys[t - first][d] = values[keyAt(shape, block, kvHead, t % 16, d)];
                    vectors[t - first][d] = values[valueAt(shape, block, kvHead, t % 16, d)];
                }
            }
            return ReferenceOps.attention(query, keys, vectors);
        }
    }

    static float[] queries(GpuRig rig, int rows) {
        float[] q = rig.halves(rows * rig.shape.queries(), 2);
        for (int i = 0; i < q.length; i++) {
            q[i] = i % rig.shape.headWidth() < rig.shape.config().headDim() ? q[i] : 0;
        }
        return q;
    }

    static void check(GpuRig rig, Pool pool, float[] q, float[] actual, int row, int sequence, int tokens) {
        ModelShape shape = rig.shape;
        int dim = shape.config().headDim();
        for (int head = 0; head < shape.config().heads(); head++) {
            int at = (row * shape.config().heads() + head) * shape.headWidth();
            double[] expected = pool.attention(
                    Arrays.copyOfRange(q, at, at + dim),
                    sequence,
                    head / shape.config().group(),
                    SlidingWindow.first(tokens - 1, shape.window()),
                    tokens);
            // the kernels round probabilities to 16 bits before they multiply by V
            assertThat(GpuRig.error(Arrays.copyOfRange(actual, at, at + dim), expected))
                    .as("row %d, head %d, %d tokens, window %d, seed %d", row, head, tokens, shape.window(), SEED)
                    .isLessThan(3 * KernelTest.rounding(shape));
        }
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void decodeAttention(ModelShape shape) {
        decodeAttention(shape, GpuRig.compiler());
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void decodeAttentionWithinAWindow(ModelShape shape) {
        for (int window : WINDOWS) {
            decodeAttention(GpuRig.windowed(shape, window), GpuRig.compiler());
        }
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void prefillAttentionWithinAWindow(ModelShape shape) {
        for (int window : WINDOWS) {
            prefillAttention(GpuRig.windowed(shape, window), GpuRig.compiler());
        }
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void prefillAndDecodeAttentionOverlapWithinAWindow(ModelShape shape) {
        prefillAndDecodeAttentionOverlap(GpuRig.windowed(shape, 100), GpuRig.compiler());
    }

    /** The rows of decode attention, within the shape's window if it has one. */
    private static long sequences(ModelShape shape, StepBuffer step) {
        return shape.window() > 0 ? step.windowedSequences() : step.sequences();
    }

    private static long header(ModelShape shape, StepBuffer step) {
        return shape.window() > 0 ? step.windowedHeader() : step.header();
    }

    public static void decodeAttention(ModelShape shape, KernelCompiler compiler) {
        int[] lengths = {1, 15, 16, 17, 64, 65, 300, 777};
        for (int blocks : new int[] {1, 7, 100, 396}) {
            try (GpuRig rig = new GpuRig(shape, SEED, compiler)) {
                Pool pool = Pool.of(rig, lengths);
                float[] q = queries(rig, lengths.length);
                try (StepBuffer step = new StepBuffer(rig.device, 64, 64, 64, 1, GpuRig.tables(1000), 0, "test")) {
                    step.clear();
                    for (int row = 0; row < lengths.length; row++) {
                        step.row(row, 0, lengths[row] - 1);
                        step.decode(
                                lengths[row],
                                GpuRig.table(step, pool.tables[row]),
                                shape.config().kvHeads(),
                                shape.window());
                    }
                    step.spread(blocks, 1, shape.config().kvHeads(), 0);
                    step.upload(rig.stream);
                    DeviceBuffer queries = rig.putHalves(q);
                    DeviceBuffer cache = rig.putHalves(pool.values);
                    long quads = 396L * shape.config().group() * shape.headWidth() / 4;
                    DeviceBuffer partial = rig.poisoned(16 * quads);
                    DeviceBuffer sums = rig.poisoned(8 * quads);
                    for (int repeat = 0; repeat < 2; repeat++) {
                        DeviceBuffer out = rig.poisoned(2L * lengths.length * shape.queries());
                        rig.kernels.decodeAttention.launch(
                                rig.stream,
                                396,
                                1,
                                queries.address(),
                                cache.address(),
                                step.tables(0),
                                sequences(shape, step),
                                header(shape, step),
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
                                shape.window());
                        float[] actual = rig.halves(out, lengths.length * shape.queries());
                        for (int row = 0; row < lengths.length; row++) {
                            check(rig, pool, q, actual, row, row, lengths[row]);
                        }
                        assertThat(IntStream.concat(
                                                Arrays.stream(rig.ints(partial, (int) (4 * quads))),
                                                Arrays.stream(rig.ints(sums, (int) (2 * quads))))
                                        .allMatch(word -> word == KernelConstants.UNPUBLISHED))
                                .as("all partial results have been merged and reset")
                                .isTrue();
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void prefillAttention(ModelShape shape) {
        prefillAttention(shape, GpuRig.compiler());
    }

    public static void prefillAttention(ModelShape shape, KernelCompiler compiler) {
        try (GpuRig rig = new GpuRig(shape, SEED, compiler)) {
            int[] starts = {0, 0, 37, 130, 517};
            int[] counts = {1, 75, 64, 33, 3};
            int[] lengths =
                    IntStream.range(0, 5).map(i -> starts[i] + counts[i]).toArray();
            int rows = Arrays.stream(counts).sum();
            int poolBlocks = 1000;
            Pool pool = Pool.of(rig, lengths);
            float[] q = queries(rig, rows);
            // scores of every third row differ by more than MAX_WEIGHT_EXPONENT of tiles.cu, so that sums are rescaled
            for (int row = 0; row < rows; row += 3) {
                for (int i = row * shape.queries(); i < (row + 1) * shape.queries(); i++) {
                    q[i] *= 16;
                }
            }
            try (StepBuffer step = new StepBuffer(rig.device, 256, 64, 64, 256, GpuRig.tables(1000), 0, "test")) {
                step.clear();
                int row = 0;
                for (int i = 0; i < counts.length; i++) {
                    // every other table names layer blocks, as those of staged prompts do
                    int[] blocks = pool.tables[i].clone();
                    if (i % 2 == 1) {
                        Arrays.setAll(
                                blocks,
                                j -> poolBlocks + blocks[j] * shape.config().layers());
                    }
                    StepBuffer.Table table = GpuRig.table(step, blocks);
                    StepLayout.tiles(step, row, counts[i], starts[i], table, shape.tileTokens());
                    row += counts[i];
                }
                step.upload(rig.stream);
                DeviceBuffer queries = rig.putHalves(q);
                DeviceBuffer cache = rig.putHalves(pool.values);
                DeviceBuffer finished =
                        rig.zeros(4L * step.tileCount() * shape.config().kvHeads());
                for (int splits : new int[] {1, 2, 3, 8, 2}) {
                    DeviceBuffer parts = rig.poisoned(4L
                            * step.tileCount()
                            * shape.config().kvHeads()
                            * splits
                            * KernelConstants.PREFILL_THREADS
                            * shape.partialValues());
                    DeviceBuffer out = rig.poisoned(2L * rows * shape.queries());
                    rig.kernels.prefillAttention.launch(
                            rig.stream,
                            rig.kernels.prefillBlocks(shape.config().kvHeads() * step.tileCount() * splits, 5),
                            1,
                            queries.address(),
                            cache.address(),
                            step.tables(0),
                            step.tiles(),
                            shape.scoreScale(),
                            out.address(),
                            poolBlocks,
                            -poolBlocks,
                            splits,
                            parts.address(),
                            finished.address(),
                            step.tileCount(),
                            0L,
                            shape.window());
                    float[] actual = rig.halves(out, rows * shape.queries());
                    row = 0;
                    for (int i = 0; i < counts.length; i++) {
                        for (int token = 0; token < counts[i]; token++, row++) {
                            check(rig, pool, q, actual, row, i, starts[i] + token + 1);
                        }
                    }
                }
            }
        }
    }

    /**
     * Prefill attention leaves multiprocessors free, and decode attention starts there before prefill attention ends.
     * Three such pairs run one after the other.
     */
    @ParameterizedTest
    @MethodSource("shapes")
    void prefillAndDecodeAttentionOverlap(ModelShape shape) {
        prefillAndDecodeAttentionOverlap(shape, GpuRig.compiler());
    }

    public static void prefillAndDecodeAttentionOverlap(ModelShape shape, KernelCompiler compiler) {
        for (double bandwidth : new double[] {1000, 4_800_000}) {
            prefillAndDecodeAttentionOverlap(shape, compiler, bandwidth);
        }
    }

    private static void prefillAndDecodeAttentionOverlap(ModelShape shape, KernelCompiler compiler, double bandwidth) {
        try (GpuRig rig = new GpuRig(shape, SEED, compiler)) {
            assumeTrue(
                    rig.kernels.promptsLeaveRoom(), "the prefill kernel for all GPUs leaves no multiprocessors free");
            int[] lengths = {1, 77, 1300, 16, 75, 550};
            int decodes = 4;
            int[] counts = {75, 33};
            int rows = decodes + counts[0] + counts[1];
            Pool pool = Pool.of(rig, lengths);
            float[] q = queries(rig, rows);
            SmPartition partition = new SmPartition(
                    shape, rig.device.multiprocessors(), rig.kernels.decodeAttention.residentBlocks(), true, bandwidth);
            try (StepBuffer step = new StepBuffer(rig.device, 256, 64, 64, 256, GpuRig.tables(1000), 0, "test")) {
                step.clear();
                for (int row = 0; row < decodes; row++) {
                    step.row(row, 0, lengths[row] - 1);
                    step.decode(
                            lengths[row],
                            GpuRig.table(step, pool.tables[row]),
                            shape.config().kvHeads(),
                            shape.window());
                }
                for (int i = 0, row = decodes; i < counts.length; row += counts[i++]) {
                    int[] table = pool.tables[decodes + i];
                    StepLayout.tiles(
                            step,
                            row,
                            counts[i],
                            lengths[decodes + i] - counts[i],
                            GpuRig.table(step, table),
                            shape.tileTokens());
                }
                new StepLayout(partition).spread(step, 0);
                step.upload(rig.stream);
                int parts = SmPartition.MAX_PARTIALS;
                DeviceBuffer queries = rig.putHalves(q);
                DeviceBuffer cache = rig.putHalves(pool.values);
                DeviceBuffer promptParts =
                        rig.poisoned(4L * parts * KernelConstants.PREFILL_THREADS * shape.partialValues());
                DeviceBuffer promptFinished = rig.zeros(4L * parts);
                long quads = (long) partition.attentionBlocks() * shape.config().group() * shape.headWidth() / 4;
                DeviceBuffer partial = rig.poisoned(16 * quads);
                DeviceBuffer sums = rig.poisoned(8 * quads);
                for (int repeat = 0; repeat < 3; repeat++) {
                    DeviceBuffer out = rig.poisoned(2L * rows * shape.queries());
                    rig.kernels.prefillAttention.launch(
                            rig.stream,
                            rig.kernels.prefillBlocks(parts, partition.multiprocessors()),
                            1,
                            queries.address(),
                            cache.address(),
                            step.tables(0),
                            step.tiles(),
                            shape.scoreScale(),
                            out.address(),
                            Integer.MAX_VALUE,
                            0,
                            1,
                            promptParts.address(),
                            promptFinished.address(),
                            step.tileCount(),
                            step.header(),
                            shape.window());
                    rig.kernels.decodeAttention.launch(
                            rig.stream,
                            partition.attentionBlocks(),
                            1,
                            queries.address(),
                            cache.address(),
                            step.tables(0),
                            sequences(shape, step),
                            header(shape, step),
                            shape.scoreScale(),
                            out.address(),
                            partial.address(),
                            sums.address(),
                            0,
                            0,
                            0,
                            0L,
                            0,
                            KernelConstants.DECODE_OVERLAPS_PREFILL,
                            shape.window());
                    float[] actual = rig.halves(out, rows * shape.queries());
                    for (int row = 0; row < decodes; row++) {
                        check(rig, pool, q, actual, row, row, lengths[row]);
                    }
                    for (int i = 0, row = decodes; i < counts.length; i++) {
                        for (int token = 0; token < counts[i]; token++, row++) {
                            check(rig, pool, q, actual, row, decodes + i, lengths[decodes + i] - counts[i] + token + 1);
                        }
                    }
                }
            }
        }
    }
}
