package dev.tandem.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.offset;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.reference.ReferenceOps;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.kv.TransferChecksums;
import dev.tandem.cuda.sampling.Bitmasks;
import dev.tandem.cuda.step.StepBuffer;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.sampling.Adjustments;
import dev.tandem.engine.sampling.Choice;
import dev.tandem.engine.sampling.Grammar;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.engine.sampling.RandomGrammar;
import dev.tandem.engine.sampling.RandomSampling;
import dev.tandem.engine.sampling.SamplingReference;
import dev.tandem.engine.sampling.SamplingScratch;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every kernel except GEMM and attention, compared with a scalar reference in double precision. Sizes are odd, and
 * result buffers hold NaN before each launch.
 */
@Tag("gpu")
class KernelTest {
    static final Adjustments NO_ADJUSTMENTS =
            new TokenSampler(SamplingParams.builder().build(), new int[0], Set.of(), 0).adjustments();
    private static final long SEED = 20260;

    static Stream<ModelShape> shapes() {
        return Stream.of(
                GpuRig.shape(8, 2, 128, 512, 1024, 1000, DataType.BFLOAT16),
                GpuRig.shape(9, 3, 64, 576, 1536, 1003, DataType.FLOAT16),
                GpuRig.shape(4, 4, 96, 384, 640, 517, DataType.BFLOAT16),
                GpuRig.shape(8, 1, 256, 320, 352, 301, DataType.FLOAT16),
                GpuRig.shape(16, 1, 128, 320, 352, 301, DataType.BFLOAT16),
                GpuRig.shape(4, 2, 80, 72, 90, 301, DataType.BFLOAT16),
                GpuRig.shape(6, 2, 16, 96, 150, 301, DataType.FLOAT16),
                GpuRig.shape(10, 2, 128, 320, 352, 301, DataType.BFLOAT16),
                GpuRig.shape(14, 2, 128, 320, 352, 301, DataType.FLOAT16),
                GpuRig.shape(6, 1, 192, 320, 352, 301, DataType.BFLOAT16),
                GpuRig.shape(11, 1, 64, 320, 352, 301, DataType.FLOAT16));
    }

    /** Sizes of {@link #shapes} with the variants of Gemma 3 and OLMo 3. */
    static Stream<ModelShape> variants() {
        return Stream.of(
                GpuRig.variant(
                        GpuRig.shape(4, 1, 256, 320, 352, 301, DataType.BFLOAT16), KernelCatalogue.gemma3(256, 320)),
                GpuRig.variant(GpuRig.shape(4, 2, 80, 72, 90, 301, DataType.FLOAT16), KernelCatalogue.gemma3(80, 72)),
                GpuRig.variant(GpuRig.shape(9, 3, 64, 576, 1536, 301, DataType.BFLOAT16), KernelCatalogue.olmo3(64)),
                GpuRig.variant(GpuRig.shape(3, 3, 100, 72, 90, 301, DataType.FLOAT16), KernelCatalogue.olmo3(100)));
    }

    /** Max relative error of a result that is rounded to 16 bits. */
    static double rounding(ModelShape shape) {
        return shape.type() == DataType.BFLOAT16 ? 4e-3 : 5e-4;
    }

    /** Adds rows wider than 4096 values, where a thread of {@code add_norm_few} has two quads. */
    static Stream<ModelShape> widths() {
        return Stream.concat(shapes(), Stream.of(GpuRig.shape(8, 1, 128, 8192, 352, 301, DataType.BFLOAT16)));
    }

    @ParameterizedTest
    @MethodSource("widths")
    void rmsNormAfterAddingPartialSums(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            for (int splits : new int[] {0, 3, 8, 9}) {
                rmsNormAfterAddingPartialSums(rig, shape, rig.kernels.addNormFew, splits);
                rmsNormAfterAddingPartialSums(rig, shape, rig.kernels.addNorm, splits);
                rmsNormAfterAddingPartialSums(rig, shape, rig.kernels.addNormMany, splits);
            }
        }
    }

    private static void rmsNormAfterAddingPartialSums(GpuRig rig, ModelShape shape, Kernels.Norm norm, int splits) {
        int hidden = shape.hidden();
        int real = shape.config().hidden();
        int rows = 5;
        float[] residual = rig.floats(rows * hidden, 1);
        float[] partials = rig.floats(Math.max(1, splits) * rows * hidden, 1);
        float[] weight = rig.floats(hidden, 1);
        for (int i = real; i < hidden; i++) {
            weight[i] = 0;
            for (int row = 0; row < rows; row++) {
                residual[row * hidden + i] = 0;
                for (int s = 0; s < splits; s++) {
                    partials[(s * rows + row) * hidden + i] = 0;
                }
            }
        }
        int[] map = {4, 0, 2};
        DeviceBuffer stream = rig.put(residual);
        DeviceBuffer parts = rig.put(partials);
        DeviceBuffer weights = rig.put(weight);
        DeviceBuffer mapped = rig.poisoned(2L * map.length * hidden);
        DeviceBuffer normed = rig.poisoned(2L * rows * hidden);
        norm.kernel()
                .launch(
                        rig.stream,
                        map.length,
                        norm.blocks(),
                        stream.address(),
                        parts.address(),
                        splits,
                        rows,
                        weights.address(),
                        rig.put(map).address(),
                        mapped.address(),
                        1e-5f,
                        Integer.MAX_VALUE,
                        0L,
                        0,
                        0L);
        norm.kernel()
                .launch(
                        rig.stream,
                        rows,
                        norm.blocks(),
                        stream.address(),
                        parts.address(),
                        splits,
                        rows,
                        weights.address(),
                        0L,
                        normed.address(),
                        1e-5f,
                        Integer.MAX_VALUE,
                        0L,
                        0,
                        0L);
        float[] actual = rig.halves(normed, rows * hidden);
        float[] picked = rig.halves(mapped, map.length * hidden);
        float[] sums = rig.floats(stream, rows * hidden);
        for (int row = 0; row < rows; row++) {
            float[] x = new float[real];
            for (int i = 0; i < real; i++) {
                x[i] = residual[row * hidden + i];
                for (int s = 0; s < splits; s++) {
                    x[i] += partials[(s * rows + row) * hidden + i];
                }
                assertThat(sums[row * hidden + i]).isCloseTo(x[i], org.assertj.core.data.Offset.offset(1e-5f));
            }
            double[] expected = ReferenceOps.rmsNorm(x, Arrays.copyOf(weight, real), 1e-5);
            assertThat(GpuRig.error(Arrays.copyOfRange(actual, row * hidden, row * hidden + real), expected))
                    .isLessThan(rounding(shape));
            for (int i = 0; i < map.length; i++) {
                if (map[i] == row) {
                    assertThat(GpuRig.error(Arrays.copyOfRange(picked, i * hidden, i * hidden + real), expected))
                            .isLessThan(rounding(shape));
                }
            }
        }
    }

    /** Adds rows as wide as those of Gemma-3-27B and OLMo-3-32B. */
    static Stream<ModelShape> variantWidths() {
        return Stream.concat(
                variants(),
                Stream.of(
                        GpuRig.variant(
                                GpuRig.shape(8, 1, 128, 5376, 352, 301, DataType.BFLOAT16),
                                KernelCatalogue.gemma3(128, 5376)),
                        GpuRig.variant(
                                GpuRig.shape(8, 1, 128, 5120, 352, 301, DataType.FLOAT16),
                                KernelCatalogue.olmo3(128))));
    }

    /** Without splits nothing is pending, as before the first layer. Then there is no norm of it either. */
    @ParameterizedTest
    @MethodSource("variantWidths")
    void normOfProjectionIsAdded(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            for (int splits : new int[] {0, 1, 3, 9}) {
                for (boolean normed : new boolean[] {true, false}) {
                    normOfProjectionIsAdded(rig, shape, rig.kernels.addNormFew, splits, normed);
                    normOfProjectionIsAdded(rig, shape, rig.kernels.addNorm, splits, normed);
                    normOfProjectionIsAdded(rig, shape, rig.kernels.addNormMany, splits, normed);
                }
            }
        }
    }

    /** @param normed whether there is a norm of the sum; else the sum is rounded */
    private static void normOfProjectionIsAdded(
            GpuRig rig, ModelShape shape, Kernels.Norm norm, int splits, boolean normed) {
        if (!normed && shape.variant().norms().onInputs()) {
            return;
        }
        int hidden = shape.hidden();
        int real = shape.config().hidden();
        int rows = 5;
        float[] residual = padded(rig.floats(rows * hidden, 1), hidden, real);
        float[] partials = padded(rig.floats(Math.max(1, splits) * rows * hidden, 1), hidden, real);
        float[] outputWeight = padded(rig.floats(hidden, 1), hidden, real);
        float[] weight = padded(rig.floats(hidden, 1), hidden, real);
        int[] map = {4, 0, 2};
        DeviceBuffer stream = rig.put(residual);
        DeviceBuffer mapped = rig.poisoned(2L * map.length * hidden);
        DeviceBuffer out = rig.poisoned(2L * rows * hidden);
        long parts = rig.put(partials).address();
        long weights = normed ? rig.put(weight).address() : 0;
        long outputWeights = splits == 0 ? 0 : rig.put(outputWeight).address();
        long rowMap = rig.put(map).address();
        for (boolean maps : new boolean[] {true, false}) {
            norm.kernel()
                    .launch(
                            rig.stream,
                            maps ? map.length : rows,
                            norm.blocks(),
                            stream.address(),
                            parts,
                            splits,
                            rows,
                            weights,
                            maps ? rowMap : 0L,
                            (maps ? mapped : out).address(),
                            1e-5f,
                            Integer.MAX_VALUE,
                            0L,
                            0,
                            outputWeights);
        }
        float[] actual = rig.halves(out, rows * hidden);
        float[] picked = rig.halves(mapped, map.length * hidden);
        float[] sums = rig.floats(stream, rows * hidden);
        for (int row = 0; row < rows; row++) {
            float[] projection = new float[real];
            for (int i = 0; i < real; i++) {
                for (int s = 0; s < splits; s++) {
                    projection[i] += partials[(s * rows + row) * hidden + i];
                }
            }
            double[] added = ReferenceOps.rmsNorm(projection, Arrays.copyOf(outputWeight, real), 1e-5);
            float[] sum = new float[real];
            for (int i = 0; i < real; i++) {
                sum[i] = residual[row * hidden + i] + (splits == 0 ? 0 : (float) added[i]);
                assertThat(sums[row * hidden + i])
                        .as("%d splits, row %d, value %d", splits, row, i)
                        .isCloseTo(sum[i], offset(1e-5f));
            }
            double[] expected = normed
                    ? ReferenceOps.rmsNorm(sum, Arrays.copyOf(weight, real), 1e-5)
                    : IntStream.range(0, real).mapToDouble(i -> sum[i]).toArray();
            assertThat(GpuRig.error(row(actual, row, hidden, real), expected))
                    .as("%d splits, row %d", splits, row)
                    .isLessThan(rounding(shape));
            for (int i = 0; i < map.length; i++) {
                if (map[i] == row) {
                    assertThat(GpuRig.error(row(picked, i, hidden, real), expected))
                            .as("%d splits, row %d of the map", splits, i)
                            .isLessThan(rounding(shape));
                }
            }
        }
    }

    /** Makes the values behind the first {@code real} ones of each row zero. */
    private static float[] padded(float[] values, int width, int real) {
        for (int i = 0; i < values.length; i++) {
            values[i] = i % width < real ? values[i] : 0;
        }
        return values;
    }

    private static float[] row(float[] values, int row, int width, int real) {
        return Arrays.copyOfRange(values, row * width, row * width + real);
    }

    /** Rows that are not moved must keep every bit, so results are compared exactly. */
    @ParameterizedTest
    @MethodSource("shapes")
    void sampledRowsAreCompacted(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            int rows = 61;
            int[] map = IntStream.range(0, 37)
                    .map(i -> i < 5 ? i : i < 20 ? 2 * i + 3 : i < 33 ? i + 23 : i)
                    .toArray();
            float[] residual = rig.floats(rows * shape.hidden(), 1);
            float[] attended = rig.halves(rig.putHalves(rig.floats(rows * shape.queries(), 1)), rows * shape.queries());
            DeviceBuffer stream = rig.put(residual);
            DeviceBuffer results = rig.putHalves(attended);
            rig.kernels.compactRows.launch(
                    rig.stream,
                    Kernels.compactRowsBlocks(shape),
                    1,
                    stream.address(),
                    results.address(),
                    rig.put(map).address(),
                    map.length);
            float[] residualAfter = rig.floats(stream, rows * shape.hidden());
            float[] attendedAfter = rig.halves(results, rows * shape.queries());
            for (int row = 0; row < rows; row++) {
                int from = row < map.length ? map[row] : row;
                assertThat(row(residualAfter, row, shape.hidden())).isEqualTo(row(residual, from, shape.hidden()));
                assertThat(row(attendedAfter, row, shape.queries())).isEqualTo(row(attended, from, shape.queries()));
            }
        }
    }

    private static float[] row(float[] values, int row, int width) {
        return Arrays.copyOfRange(values, row * width, (row + 1) * width);
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void sampling(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED);
                StepBuffer step = new StepBuffer(rig.device, 64, 64, 64, 1, GpuRig.tables(1), 1000, "test")) {
            int vocabulary = shape.config().vocabulary();
            int width = shape.vocabulary();
            int rows = 8;
            float[] logits = rig.floats(rows * width, 4);
            for (int row = 0; row < rows; row++) {
                for (int i = vocabulary; i < width; i++) {
                    logits[row * width + i] = 1000;
                }
            }
            logits[width + 7] = 50;
            logits[width + 9] = 50;
            logits[2 * width + 3] = Float.NaN;
            logits[6 * width + vocabulary - 1] = Float.POSITIVE_INFINITY;
            logits[7 * width] = Float.NEGATIVE_INFINITY;
            DeviceBuffer values = rig.put(logits);
            DeviceBuffer chosen = rig.poisoned(4L * rows);
            DeviceBuffer counters = rig.zeros(4L * rows);
            rig.kernels.argmax.launch(
                    rig.stream,
                    rows,
                    KernelConstants.ARGMAX_PARTS,
                    values.address(),
                    rig.poisoned(8L * rows * KernelConstants.ARGMAX_PARTS).address(),
                    counters.address(),
                    chosen.address());
            int[] best = rig.ints(chosen, rows);
            assertThat(best[1]).as("the lower token id of two equal logits").isEqualTo(7);
            assertThat(best[2]).as("NaN").isEqualTo(-1);
            assertThat(best[6]).as("positive infinity").isEqualTo(-1);
            assertThat(best[7]).as("negative infinity").isEqualTo(-1);
            for (int row : new int[] {0, 3, 4, 5}) {
                int expected = 0;
                for (int i = 0; i < vocabulary; i++) {
                    expected = logits[row * width + i] > logits[row * width + expected] ? i : expected;
                }
                assertThat(best[row]).isEqualTo(expected);
            }
            int draws = 400;
            for (int i = 0; i < draws; i++) {
                double uniform = (i + 0.5) / draws;
                step.clear();
                step.draw(3, draw(0.8, 1, 0, uniform, 5), NO_ADJUSTMENTS);
                step.draw(4, draw(1, 0.6, 0, uniform, 0), NO_ADJUSTMENTS);
                step.draw(5, draw(1, 1, 0.3, uniform, 0), NO_ADJUSTMENTS);
                step.draw(0, draw(1.5, 1, 0, uniform, 0), NO_ADJUSTMENTS);
                step.upload(rig.stream);
                DeviceBuffer tokens = rig.put(best);
                rig.kernels.sample.launch(
                        rig.stream, 4, 1, values.address(), step.draws(), tokens.address(), 4, 0, 0L, 0);
                int[] sampled = rig.ints(tokens, rows);
                assertThat(sampled[3]).isEqualTo(expected(logits, 3 * width, vocabulary, 0.8, 5, 1, 0, uniform));
                assertThat(sampled[4]).isEqualTo(expected(logits, 4 * width, vocabulary, 1, 0, 0.6, 0, uniform));
                assertThat(sampled[5]).isEqualTo(expected(logits, 5 * width, vocabulary, 1, 0, 1, 0.3, uniform));
                assertThat(sampled[0]).isEqualTo(expected(logits, 0, vocabulary, 1.5, 0, 1, 0, uniform));
            }
        }
    }

    /** Biases, penalties, forbidden tokens and log-probabilities, compared with {@code TokenSampler} on the CPU. */
    @ParameterizedTest
    @MethodSource("shapes")
    void adjustmentsAndLogprobs(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED);
                StepBuffer step = new StepBuffer(rig.device, 64, 64, 64, 1, GpuRig.tables(1), 1000, "test")) {
            int vocabulary = shape.config().vocabulary();
            int width = shape.vocabulary();
            int[] prompt = IntStream.range(0, 90).map(i -> i * 3 % vocabulary).toArray();
            List<SamplingParams> requests = List.of(
                    SamplingParams.builder()
                            .temperature(0)
                            .repetitionPenalty(1.7)
                            .presencePenalty(1)
                            .frequencyPenalty(0.5)
                            .build(),
                    SamplingParams.builder().temperature(0).logprobs(20).build(),
                    SamplingParams.builder()
                            .temperature(0)
                            .logitBias(Map.of(11, 100f))
                            .minTokens(9)
                            .build(),
                    SamplingParams.builder()
                            .temperature(0.7)
                            .seed(5L)
                            .repetitionPenalty(0.5)
                            .build(),
                    SamplingParams.builder()
                            .temperature(0.9)
                            .seed(6L)
                            .logprobs(0)
                            .build());
            int rows = requests.size();
            List<TokenSampler> gpuSamplers = samplers(requests, prompt);
            List<TokenSampler> cpuSamplers = samplers(requests, prompt);
            DeviceBuffer reported = rig.zeros(4L * rows * 41);
            for (int token = 0; token < 8; token++) {
                float[] logits = rig.floats(rows * width, 3);
                logits[2 * width + 13] = 1000; // forbidden
                DeviceBuffer values = rig.put(logits);
                DeviceBuffer chosen = argmax(rig, values, rows);
                step.clear();
                for (int row = 0; row < rows; row++) {
                    step.draw(
                            row,
                            gpuSamplers.get(row).draw(step.adjustmentRoom()).orElseThrow(),
                            gpuSamplers.get(row).adjustments());
                }
                step.upload(rig.stream);
                rig.kernels.adjust.launch(
                        rig.stream, step.adjustedCount(), 1, values.address(), step.adjusted(), step.adjustments());
                rig.kernels.sample.launch(
                        rig.stream, rows, 1, values.address(), step.draws(), chosen.address(), rows, 0, 0L, 0);
                rig.kernels.logprobs.launch(
                        rig.stream,
                        rows,
                        1,
                        values.address(),
                        step.draws(),
                        chosen.address(),
                        rows,
                        0,
                        0L,
                        0,
                        reported.address());
                int[] tokens = rig.ints(chosen, rows);
                float[] probabilities = rig.floats(reported, rows * 41);
                int[] ids = rig.ints(reported, rows * 41);
                SamplingScratch scratch = new SamplingScratch();
                for (int row = 0; row < rows; row++) {
                    Choice expected = cpuSamplers.get(row).choose(logits, row * width, vocabulary, scratch);
                    assertThat(tokens[row]).as("row %d, token %d", row, token).isEqualTo(expected.token());
                    gpuSamplers.get(row).chosen(tokens[row], Optional.empty());
                    int at = 41 * row;
                    expected.logprobs().ifPresent(logprobs -> {
                        assertThat(probabilities[at]).isCloseTo(logprobs.logprob(), offset(1e-4f));
                        assertThat(Arrays.copyOfRange(ids, at + 1, at + 1 + logprobs.topTokens().length))
                                .isEqualTo(logprobs.topTokens());
                        for (int i = 0; i < logprobs.topLogprobs().length; i++) {
                            assertThat(probabilities[at + 21 + i]).isCloseTo(logprobs.topLogprobs()[i], offset(1e-4f));
                        }
                    });
                }
            }
        }
    }

    /** Scores of prompts, with ties and with logits that are not finite, compared with {@code PromptScorer}. */
    @ParameterizedTest
    @MethodSource("shapes")
    void scores(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            int vocabulary = shape.config().vocabulary();
            int width = shape.vocabulary();
            int rows = 37;
            int words = KernelConstants.SCORE_WORDS;
            int max = SamplingParams.MAX_LOGPROBS;
            float[] logits = rig.floats(rows * width, 3);
            System.arraycopy(logits, width + 1, logits, width + 3, 4); // ties
            logits[2 * width] = Float.NaN;
            logits[3 * width + vocabulary - 1] = Float.NEGATIVE_INFINITY;
            if (width > vocabulary) {
                logits[4 * width + vocabulary] = Float.NaN; // padding
            }
            int[] prompt = new int[rows + 1];
            int[] targets = new int[2 * rows];
            for (int row = 0; row < rows; row++) {
                prompt[row + 1] = row == 1 ? 3 : row * 7919 % vocabulary;
                targets[2 * row] = prompt[row + 1];
                targets[2 * row + 1] = row % 2 == 0 ? max : row % 5;
            }
            DeviceBuffer out = rig.zeros(4L * rows * words);
            rig.kernels.score.launch(
                    rig.stream,
                    rows,
                    1,
                    rig.put(logits).address(),
                    rig.put(targets).address(),
                    out.address());
            float[] floats = rig.floats(out, rows * words);
            int[] ints = rig.ints(out, rows * words);
            for (int row = 0; row < rows; row++) {
                int at = row * words;
                int alternatives = targets[2 * row + 1];
                if (row == 2 || row == 3) {
                    assertThat(ints[at + 1]).as("rank of row %d", row).isZero();
                    continue;
                }
                PromptScorer scorer = new PromptScorer(prompt, alternatives);
                scorer.score(row, logits, row * width, vocabulary, new SamplingScratch());
                TokenLogprobs expected = scorer.score(row + 1).orElseThrow();
                assertThat(ints[at + 1]).as("rank of row %d", row).isEqualTo(scorer.rank(row + 1));
                assertThat(floats[at]).as("row %d", row).isCloseTo(expected.logprob(), offset(1e-4f));
                assertThat(Arrays.copyOfRange(ints, at + 2, at + 2 + alternatives))
                        .as("alternatives of row %d", row)
                        .isEqualTo(expected.topTokens());
                for (int i = 0; i < alternatives; i++) {
                    assertThat(floats[at + 2 + max + i]).isCloseTo(expected.topLogprobs()[i], offset(1e-4f));
                }
            }
        }
    }

    /** Bitmasks, with and without other parameters, compared with {@code TokenSampler} on the CPU. */
    @ParameterizedTest
    @MethodSource("shapes")
    void masks(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED);
                StepBuffer step = new StepBuffer(rig.device, 64, 64, 64, 1, GpuRig.tables(1), 1000, "test");
                Bitmasks masks = new Bitmasks(rig.device, shape, 64)) {
            int vocabulary = shape.config().vocabulary();
            int width = shape.vocabulary();
            List<SamplingParams.Builder> requests = List.of(
                    SamplingParams.builder().temperature(0),
                    SamplingParams.builder().temperature(0.9).seed(4),
                    SamplingParams.builder().temperature(0.8).seed(5).topK(3).topP(0.7),
                    SamplingParams.builder().temperature(0).repetitionPenalty(1.7),
                    SamplingParams.builder().temperature(1).seed(6));
            int unmasked = 1;
            for (long seed = SEED; seed < SEED + 20; seed++) {
                List<SamplingParams> constrained = new ArrayList<>();
                for (int row = 0; row < requests.size(); row++) {
                    Optional<Grammar> grammar =
                            row == unmasked ? Optional.empty() : Optional.of(new RandomGrammar(seed + row, vocabulary));
                    constrained.add(requests.get(row).grammar(grammar).build());
                }
                int rows = constrained.size();
                int[] prompt = {1, 2};
                List<TokenSampler> gpuSamplers = samplers(constrained, prompt);
                List<TokenSampler> cpuSamplers = samplers(constrained, prompt);
                SamplingScratch scratch = new SamplingScratch();
                for (int token = 0; token < 4; token++) {
                    float[] logits = rig.floats(rows * width, 3);
                    DeviceBuffer values = rig.put(logits);
                    DeviceBuffer chosen = argmax(rig, values, rows);
                    step.clear();
                    masks.clear();
                    for (int row = 0; row < rows; row++) {
                        TokenSampler sampler = gpuSamplers.get(row);
                        step.draw(row, sampler.draw(step.adjustmentRoom(), true).orElseThrow(), sampler.adjustments());
                        int at = row;
                        sampler.matcher().ifPresent(matcher -> masks.add(at, matcher));
                    }
                    step.upload(rig.stream);
                    masks.upload(rig.stream);
                    rig.kernels.adjust.launch(
                            rig.stream, step.adjustedCount(), 1, values.address(), step.adjusted(), step.adjustments());
                    rig.kernels.maskLogits.launch(
                            rig.stream,
                            masks.count(),
                            KernelConstants.ARGMAX_PARTS,
                            values.address(),
                            masks.rows(),
                            masks.bitmasks());
                    rig.kernels.sample.launch(
                            rig.stream, rows, 1, values.address(), step.draws(), chosen.address(), rows, 0, 0L, 0);
                    int[] tokens = rig.ints(chosen, rows);
                    for (int row = 0; row < rows; row++) {
                        Choice expected = cpuSamplers.get(row).choose(logits, row * width, vocabulary, scratch);
                        assertThat(tokens[row])
                                .as("seed %d, row %d, token %d", seed, row, token)
                                .isEqualTo(expected.token());
                        gpuSamplers.get(row).chosen(tokens[row], Optional.empty());
                    }
                }
            }
        }
    }

    private static DeviceBuffer argmax(GpuRig rig, DeviceBuffer values, int rows) {
        DeviceBuffer chosen = rig.poisoned(4L * rows);
        rig.kernels.argmax.launch(
                rig.stream,
                rows,
                KernelConstants.ARGMAX_PARTS,
                values.address(),
                rig.poisoned(8L * rows * KernelConstants.ARGMAX_PARTS).address(),
                rig.zeros(4L * rows).address(),
                chosen.address());
        return chosen;
    }

    /** Extreme parameters and logits, compared with a sequential version of the kernel's algorithm. */
    @ParameterizedTest
    @MethodSource("shapes")
    void samplingWithExtremeParameters(ModelShape shape) {
        int rows = 16;
        try (GpuRig rig = new GpuRig(shape, SEED);
                StepBuffer step = new StepBuffer(rig.device, 64, 64, 64, 1, GpuRig.tables(1), 4000, "test")) {
            int vocabulary = shape.config().vocabulary();
            int width = shape.vocabulary();
            for (long seed = SEED; seed < SEED + 40; seed++) {
                RandomSampling random = new RandomSampling(seed);
                List<SamplingParams> requests = Stream.generate(
                                () -> random.params(vocabulary).withLogprobs(-1))
                        .limit(rows)
                        .toList();
                List<TokenSampler> samplers = samplers(requests, random.prompt(vocabulary));
                for (int token = 0; token < 3; token++) {
                    float[] logits = new float[rows * width];
                    Arrays.fill(logits, 1000); // the padding beyond the vocabulary keeps this value
                    for (int row = 0; row < rows; row++) {
                        System.arraycopy(random.logits(vocabulary), 0, logits, row * width, vocabulary);
                    }
                    List<TokenSampler.Draw> draws = samplers.stream()
                            .map(sampler -> sampler.draw(4000).orElseThrow())
                            .toList();
                    int[] chosen = sampling(rig, step, rig.put(logits), draws, samplers);
                    for (int row = 0; row < rows; row++) {
                        float[] adjusted = Arrays.copyOfRange(logits, row * width, row * width + vocabulary);
                        samplers.get(row).adjustments().apply(adjusted, 0, vocabulary);
                        String what =
                                "seed " + seed + ", token " + token + ", " + requests.get(row) + ", " + draws.get(row);
                        assertThat(chosen[row]).as(what).isBetween(-1, vocabulary - 1);
                        int next = 0;
                        if (drawable(logits, row * width, adjusted)) {
                            assertThat(isOneOf(adjusted, draws.get(row), chosen[row]))
                                    .as("%s: %d", what, chosen[row])
                                    .isTrue();
                            next = chosen[row];
                        }
                        samplers.get(row).chosen(next, Optional.empty());
                    }
                }
            }
        }
    }

    private static int[] sampling(
            GpuRig rig,
            StepBuffer step,
            DeviceBuffer values,
            List<TokenSampler.Draw> draws,
            List<TokenSampler> samplers) {
        int rows = draws.size();
        DeviceBuffer chosen = argmax(rig, values, rows);
        step.clear();
        for (int row = 0; row < rows; row++) {
            step.draw(row, draws.get(row), samplers.get(row).adjustments());
        }
        step.upload(rig.stream);
        if (step.adjustedCount() > 0) {
            rig.kernels.adjust.launch(
                    rig.stream, step.adjustedCount(), 1, values.address(), step.adjusted(), step.adjustments());
        }
        rig.kernels.sample.launch(
                rig.stream, rows, 1, values.address(), step.draws(), chosen.address(), rows, 0, 0L, 0);
        return rig.ints(chosen, rows);
    }

    /** Whether all logits of the model are finite, and at least one token can be sampled after the adjustments. */
    private static boolean drawable(float[] logits, int offset, float[] adjusted) {
        boolean canSample = false;
        for (int i = 0; i < adjusted.length; i++) {
            if (!Float.isFinite(logits[offset + i]) || !(adjusted[i] < Float.POSITIVE_INFINITY)) {
                return false;
            }
            canSample |= adjusted[i] > Float.NEGATIVE_INFINITY;
        }
        return canSample;
    }

    /**
     * Whether the reference samples this token, exactly or with parameters changed by the error of the GPU's fast
     * exponential.
     */
    private static boolean isOneOf(float[] logits, TokenSampler.Draw draw, int token) {
        SamplingReference.Parameters exact = SamplingReference.Parameters.of(draw);
        if (SamplingReference.token(logits, exact) == token) {
            return true;
        }
        float[] errors = {0, 3e-6f, -3e-6f};
        for (float uniform : errors) {
            for (float topP : errors) {
                for (float minP : errors) {
                    SamplingReference.Parameters near = new SamplingReference.Parameters(
                            exact.temperature(),
                            exact.topK(),
                            Math.min(1, exact.topP() * (1 + topP)),
                            Math.min(1, exact.minP() * (1 + minP)),
                            Math.clamp(exact.uniform() + uniform, 0f, 1 - 0x1p-24f));
                    if (SamplingReference.token(logits, near) == token) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    private static List<TokenSampler> samplers(List<SamplingParams> requests, int[] prompt) {
        return requests.stream()
                .map(params -> new TokenSampler(params, prompt, Set.of(13), 1))
                .toList();
    }

    /** The token at which the cumulative probability, in ascending order of ids, reaches {@code uniform}. */
    static int expected(
            float[] logits,
            int offset,
            int vocabulary,
            double temperature,
            int topK,
            double topP,
            double minP,
            double uniform) {
        Integer[] order = IntStream.range(0, vocabulary).boxed().toArray(Integer[]::new);
        Arrays.sort(order, (a, b) -> Float.compare(logits[offset + b], logits[offset + a]));
        double top = logits[offset + order[0]];
        double[] weights = new double[vocabulary];
        double kept = 0;
        for (int i = 0; i < vocabulary; i++) {
            double weight = Math.exp((logits[offset + order[i]] - top) / temperature);
            weights[order[i]] = (topK == 0 || i < topK) && weight >= minP ? weight : 0;
            kept += weights[order[i]];
        }
        double mass = 0;
        for (int id : order) {
            if (mass >= kept * topP) {
                weights[id] = 0;
            }
            mass += weights[id];
        }
        double target = uniform * Arrays.stream(weights).sum();
        int id = -1;
        for (int i = 0; i < vocabulary && target >= 0; i++) {
            if (weights[i] > 0) {
                id = i;
                target -= weights[i];
            }
        }
        return id;
    }

    static TokenSampler.Draw draw(double temperature, double topP, double minP, double uniform, int topK) {
        return new TokenSampler.Draw(temperature, topK, topP, minP, uniform, -1, false, false);
    }

    /** A value of a host block at a byte offset in the CPU's format. */
    private static float host(float[] bits, BlockFormat format, long offset, ModelShape shape) {
        return bits[(int) (offset / shape.type().bytes())];
    }

    /** Checksums of a swapped block are equal on GPU and host, and differ between blocks. */
    private static void checkSums(
            GpuRig rig,
            BlockFormat format,
            List<DeviceBuffer> sides,
            DeviceBuffer target,
            int hostBlocks,
            DeviceBuffer list,
            int[] moves) {
        int layers = 2;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(layers * hostBlocks * format.blockBytes(), 64);
            host.copyFrom(rig.get(target, host.byteSize()));
            for (DeviceBuffer side : sides) {
                DeviceBuffer sums = rig.zeros(8L * moves[0] * layers);
                rig.kernels.sumMoved.launch(
                        rig.stream, 2, layers, side.address(), list.address(), 0, layers, sums.address());
                MemorySegment summed = rig.get(sums, 8L * moves[0] * layers);
                Set<Long> different = new HashSet<>();
                for (int i = 0; i < moves[0] * layers; i++) {
                    int move = 8 + 8 * (i / layers);
                    long block = host.address() + (i % layers * hostBlocks + moves[move]) * format.blockBytes();
                    long sum = TransferChecksums.sum(format, block, moves[move + 1]);
                    assertThat(summed.getAtIndex(ValueLayout.JAVA_LONG_UNALIGNED, i))
                            .isEqualTo(sum);
                    different.add(sum);
                }
                assertThat(different).hasSize(moves[0] * layers);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void swappingBlocksConvertsTheirFormat(ModelShape shape) {
        BlockFormat format =
                new BlockFormat(shape.config().kvHeads(), shape.config().headDim(), shape.type());
        assertThat(HostFormat.blockBytes(shape)).isEqualTo(format.blockBytes());
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            int layers = 2;
            int gpuBlocks = 11;
            int hostBlocks = 4;
            int blockHalves = (int) (shape.layerBlockBytes() / 2);
            int hostHalves = (int) (format.blockBytes() / 2);
            float[] from = rig.halves(layers * gpuBlocks * blockHalves, 1);
            int width = shape.headWidth();
            int dim = shape.config().headDim();
            int tile = width * ModelShape.BLOCK_TOKENS;
            for (int i = 0; i < from.length; i++) {
                int within = i % (2 * tile);
                int d = within < tile ? within % width : (within - tile) / 2 % width;
                from[i] = d < dim ? from[i] : 0;
            }
            int[] tokens = {64, 19, 1};
            // the number of copies, padded to 8; then per copy: host block, tokens, layer blocks
            int[] moves = {
                3, 0, 0, 0, 0, 0, 0, 0, 2, 64, 18, 0, 8, 20, 0, 0, 0, 19, 6, 2, 0, 0, 0, 0, 3, 1, 14, 0, 0, 0, 0, 0
            };
            DeviceBuffer source = rig.putHalves(from);
            DeviceBuffer target = rig.poisoned(2L * layers * hostBlocks * hostHalves);
            DeviceBuffer list = rig.put(moves);
            long hostBlock = format.blockBytes() / 4;
            long hostLayer = hostBlocks * hostBlock;
            rig.kernels.moveOut.launch(
                    rig.stream, 3, 1, source.address(), target.address(), hostLayer, hostBlock, list.address(), layers);
            float[] host = rig.halves(target, layers * hostBlocks * hostHalves);
            DeviceBuffer back = rig.poisoned(2L * layers * gpuBlocks * blockHalves);
            rig.kernels.moveIn.launch(
                    rig.stream, 5, 1, back.address(), target.address(), hostLayer, hostBlock, list.address(), layers);
            float[] returned = rig.halves(back, layers * gpuBlocks * blockHalves);
            checkSums(rig, format, List.of(source, back), target, hostBlocks, list, moves);
            for (int layer = 0; layer < layers; layer++) {
                for (int move = 0; move < 3; move++) {
                    long block = 2L * (layer * hostBlocks + moves[8 + 8 * move]) * hostHalves;
                    for (int head = 0; head < shape.config().kvHeads(); head++) {
                        for (int token = 0; token < 64; token++) {
                            boolean stored = token < tokens[move];
                            int gpu = (moves[8 + 8 * move + 2 + token / 16] + layer) * blockHalves + head * 2 * tile;
                            for (int d = 0; d < dim; d++) {
                                int key = gpu + token % 16 * width + d;
                                int value = gpu + tile + (token % 16 / 2 * width + d) * 2 + token % 2;
                                float hostValue = host(host, format, block + format.value(head, token, d), shape);
                                assertThat(hostValue).as("V of token %d", token).isEqualTo(stored ? from[value] : 0);
                                if (token / 16 * 16 < tokens[move]) {
                                    assertThat(returned[value])
                                            .as("V of token %d, swapped back", token)
                                            .isEqualTo(stored ? from[value] : 0);
                                }
                                if (stored) {
                                    assertThat(host(host, format, block + format.key(head, token, d), shape))
                                            .isEqualTo(from[key]);
                                    assertThat(returned[key]).isEqualTo(from[key]);
                                }
                            }
                        }
                    }
                }
                for (int i = 0; i < hostHalves; i++) {
                    assertThat(host[(layer * hostBlocks + 1) * hostHalves + i])
                            .as("a host block that is no target")
                            .isNaN();
                }
            }
        }
    }
}
