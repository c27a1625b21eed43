package dev.tandem.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.reference.ReferenceOps;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.TensorMap;
import dev.tandem.cuda.gemm.CublasLtGemm;
import dev.tandem.cuda.gemm.Gemm;
import dev.tandem.cuda.gemm.Gemm.Result;
import dev.tandem.cuda.tune.AutotuneCache;
import dev.tandem.model.config.Activation;
import dev.tandem.model.config.DataType;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * GEMV and GEMM kernels and cublasLt, compared with a scalar reference in double precision. Sizes are odd, and result
 * buffers hold NaN before each launch.
 */
@Tag("gpu")
class GemmKernelTest {
    private static final long SEED = 20260;

    /** Adds sums of 21 stages of 64 values, which go through a ring of 6 stages more than three times. */
    static Stream<ModelShape> shapes() {
        return Stream.concat(KernelTest.shapes(), Stream.of(GpuRig.shape(4, 2, 64, 1288, 352, 301, DataType.BFLOAT16)));
    }

    /** All sizes with SiLU, and two with GELU. */
    static Stream<ModelShape> activations() {
        return Stream.concat(
                shapes(), KernelTest.variants().filter(shape -> shape.variant().activation() == Activation.GELU_TANH));
    }

    private static float[][] matrix(float[] values, int rows, int columns) {
        float[][] matrix = new float[rows][];
        for (int row = 0; row < rows; row++) {
            matrix[row] = Arrays.copyOfRange(values, row * columns, (row + 1) * columns);
        }
        return matrix;
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void gemv(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            int n = shape.qkv();
            int depth = shape.hidden();
            float[] w = rig.halves(n * depth, 1);
            DeviceBuffer weights = rig.putHalves(w);
            for (int rows : List.of(1, 5, 8, 13, 17, 31, 40, 64)) {
                float[] x = rig.halves(rows * depth, 1);
                DeviceBuffer padded = rig.putHalves(Arrays.copyOf(x, Kernels.GEMV_MAX_ROWS * depth));
                int splits = depth >= 64 ? 2 : 1;
                Gemms gemms = new Gemms(rig, weights.address(), padded.address(), rows, n, depth);
                double[] expected = ReferenceOps.matmul(x, matrix(w, n, depth), rows);
                assertThat(GpuRig.error(gemms.sums(rig.kernels.gemv(rows), 256, splits), expected))
                        .as("%d rows", rows)
                        .isLessThan(1e-5);
                if (rig.kernels.hasTma()) {
                    int boxRows = 8 * Kernels.tiles(rows);
                    TensorMap ws = TensorMap.of(rig.device, weights.address(), n, depth, 64, shape.type());
                    TensorMap xs = TensorMap.of(rig.device, padded.address(), boxRows, depth, boxRows, shape.type());
                    Gemms copied = new Gemms(rig, ws, xs, rows, n, depth);
                    assertThat(GpuRig.error(copied.sums(rig.kernels.gemvTma(rows), 128, splits), expected))
                            .as("%d rows, gemv_tma", rows)
                            .isLessThan(1e-5);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("activations")
    void gemvSwiglu(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            int width = shape.intermediate();
            int depth = shape.hidden();
            float[] w = rig.halves(2 * width * depth, 0.2);
            DeviceBuffer weights = rig.putHalves(w);
            for (int rows : List.of(1, 7, 24, 50)) {
                float[] x = rig.halves(rows * depth, 1);
                double[] both = ReferenceOps.matmul(x, matrix(w, 2 * width, depth), rows);
                double[] expected = swiglu(shape, x, w, rows);
                DeviceBuffer padded = rig.putHalves(Arrays.copyOf(x, Kernels.GEMV_MAX_ROWS * depth));
                Gemms gemms = new Gemms(rig, weights.address(), padded.address(), rows, 2 * width, depth);
                assertThat(GpuRig.error(gemms.swiglu(rig.kernels.gemvSwiglu(rows), 256), expected))
                        .as("%d rows", rows)
                        .isLessThan(KernelTest.rounding(shape));
                if (rig.kernels.hasTma()) {
                    int boxRows = 8 * Kernels.tiles(rows);
                    TensorMap ws = TensorMap.of(rig.device, weights.address(), 2L * width, depth, 64, shape.type());
                    TensorMap xs = TensorMap.of(rig.device, padded.address(), boxRows, depth, boxRows, shape.type());
                    Gemms copied = new Gemms(rig, ws, xs, rows, 2 * width, depth);
                    assertThat(GpuRig.error(copied.swiglu(rig.kernels.gemvTmaSwiglu(rows), 128), expected))
                            .as("%d rows, gemv_tma", rows)
                            .isLessThan(KernelTest.rounding(shape));
                }
                float[] narrow = new float[both.length];
                IntStream.range(0, both.length).forEach(i -> narrow[i] = (float) both[i]);
                DeviceBuffer gateUp = rig.putHalves(narrow);
                DeviceBuffer separate = rig.poisoned(2L * rows * width);
                rig.kernels.swiglu.launch(
                        rig.stream, (rows * width / 8 + 255) / 256, 1, gateUp.address(), separate.address(), rows);
                assertThat(GpuRig.error(rig.halves(separate, rows * width), expected))
                        .isLessThan(3 * KernelTest.rounding(shape));
            }
        }
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void wgmmaGemm(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            if (!rig.kernels.wgmma()) {
                return;
            }
            int n = shape.qkv();
            int depth = shape.hidden();
            float[] w = rig.halves(n * depth, 1);
            DeviceBuffer weights = rig.putHalves(w);
            TensorMap ws = TensorMap.of(rig.device, weights.address(), n, depth, 64, shape.type());
            for (int rows : List.of(1, 31, 32, 33, 48, 49, 64, 65, 95, 96, 128, 150, 191, 192)) {
                float[] x = rig.halves(rows * depth, 1);
                int boxRows = (rows + 7) / 8 * 8;
                TensorMap xs = TensorMap.of(rig.device, rig.putHalves(x).address(), rows, depth, boxRows, shape.type());
                double[] expected = ReferenceOps.matmul(x, matrix(w, n, depth), rows);
                Gemms gemms = new Gemms(rig, ws, xs, rows, n, depth);
                for (int splits = 1; splits <= Math.min(3, (depth + 63) / 64); splits++) {
                    float[] parts = gemms.parts(rig.kernels.wgmma(rows), 128, splits);
                    assertThat(GpuRig.error(sumOfSplits(parts, rows * n), expected))
                            .as("%d rows, %d splits", rows, splits)
                            .isLessThan(1e-5);
                    assertThat(gemms.parts(rig.kernels.wgmmaTall(rows), 256, splits))
                            .as("%d rows, %d splits, 256 weight rows per block", rows, splits)
                            .isEqualTo(parts);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("activations")
    void gemmSwiglu(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            if (rig.kernels.gemmSwiglu().isEmpty()) {
                return;
            }
            int width = shape.intermediate();
            int depth = shape.hidden();
            float[] w = rig.halves(2 * width * depth, 0.2);
            TensorMap pairs = TensorMap.pairs(rig.device, rig.putHalves(w).address(), width, depth, shape.type());
            for (int rows : List.of(1, 63, 128, 129, 256, 300)) {
                float[] x = rig.halves(rows * depth, 1);
                TensorMap xs = TensorMap.of(rig.device, rig.putHalves(x).address(), rows, depth, 128, shape.type());
                double[] expected = swiglu(shape, x, w, rows);
                for (int blocks : List.of(2, 6, 132)) {
                    DeviceBuffer out = rig.poisoned(2L * rows * width);
                    TensorMap outs = TensorMap.of(rig.device, out.address(), rows, width, 64, shape.type());
                    rig.kernels.gemmSwiglu().get().launch(rig.stream, blocks, 1, pairs, xs, outs, rows, depth);
                    assertThat(GpuRig.error(rig.halves(out, rows * width), expected))
                            .as("%d rows, %d blocks", rows, blocks)
                            .isLessThan(KernelTest.rounding(shape));
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("activations")
    void wgmmaSwiglu(ModelShape shape) {
        try (GpuRig rig = new GpuRig(shape, SEED)) {
            if (!rig.kernels.wgmma()) {
                return;
            }
            int width = shape.intermediate();
            int depth = shape.hidden();
            float[] w = rig.halves(2 * width * depth, 0.2);
            TensorMap pairs = TensorMap.pairs(rig.device, rig.putHalves(w).address(), width, depth, shape.type());
            for (int rows : List.of(5, 32, 43, 50, 90, 128, 160, 180, 192)) {
                float[] x = rig.halves(rows * depth, 1);
                TensorMap xs = TensorMap.of(
                        rig.device, rig.putHalves(x).address(), rows, depth, (rows + 7) / 8 * 8, shape.type());
                double[] expected = swiglu(shape, x, w, rows);
                Gemms gemms = new Gemms(rig, pairs, xs, rows, 2 * width, depth);
                float[] out = gemms.swiglu(rig.kernels.wgmmaSwiglu(rows), 128);
                assertThat(GpuRig.error(out, expected)).as("%d rows", rows).isLessThan(KernelTest.rounding(shape));
                assertThat(gemms.swiglu(rig.kernels.wgmmaSwigluTall(rows), 256))
                        .as("%d rows, 256 weight rows per block", rows)
                        .isEqualTo(out);
            }
        }
    }

    /**
     * Launches kernels that multiply the same matrices, each into a buffer of its own that holds NaN before.
     *
     * @param weights [n, depth], an address or a {@link TensorMap}
     * @param x [rows, depth], likewise
     */
    private record Gemms(GpuRig rig, Object weights, Object x, int rows, int n, int depth) {
        /** [splits, rows, n]: what each split sums. */
        float[] parts(Kernel kernel, int weightRowsOfBlock, int splits) {
            DeviceBuffer out = rig.poisoned(4L * splits * rows * n);
            launch(kernel, weightRowsOfBlock, splits, out);
            return rig.floats(out, splits * rows * n);
        }

        /** [rows, n]: the sums of all splits. */
        float[] sums(Kernel kernel, int weightRowsOfBlock, int splits) {
            return sumOfSplits(parts(kernel, weightRowsOfBlock, splits), rows * n);
        }

        /** [rows, n / 2]: the activations of pairs of gate and up. */
        float[] swiglu(Kernel kernel, int weightRowsOfBlock) {
            DeviceBuffer out = rig.poisoned(2L * rows * (n / 2));
            launch(kernel, weightRowsOfBlock, 1, out);
            return rig.halves(out, rows * (n / 2));
        }

        private void launch(Kernel kernel, int weightRowsOfBlock, int splits, DeviceBuffer out) {
            int blocks = (n + weightRowsOfBlock - 1) / weightRowsOfBlock;
            kernel.launch(rig.stream, blocks, splits, weights, x, out.address(), rows, n, depth);
        }
    }

    /** SwiGLU, or GeGLU, [rows][width] of gate and up, {@code w} [2 width][depth]. */
    private static double[] swiglu(ModelShape shape, float[] x, float[] w, int rows) {
        int width = shape.intermediate();
        double[] both = ReferenceOps.matmul(x, matrix(w, 2 * width, shape.hidden()), rows);
        float[] gate = new float[rows * width];
        float[] up = new float[rows * width];
        for (int i = 0; i < gate.length; i++) {
            gate[i] = (float) both[i / width * 2 * width + i % width];
            up[i] = (float) both[i / width * 2 * width + width + i % width];
        }
        return switch (shape.variant().activation()) {
            case SILU -> ReferenceOps.swiGlu(gate, up);
            case GELU_TANH -> ReferenceOps.geGlu(gate, up);
        };
    }

    private static float[] sumOfSplits(float[] parts, int length) {
        float[] sums = new float[length];
        for (int i = 0; i < parts.length; i++) {
            sums[i % length] += parts[i];
        }
        return sums;
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void libraryGemms(ModelShape shape, @TempDir Path folder) {
        String name = "cublasLt/128x" + shape.hidden() + "x" + shape.queries() + "/WIDE_ADDED";
        String broken = "ff".repeat(64);
        AutotuneCache measured = AutotuneCache.open(folder, "a GPU");
        libraryGemms(shape, measured);
        assertThat(measured.find(name)).isPresent();
        measured.keep();
        AutotuneCache kept = AutotuneCache.open(folder, "a GPU");
        libraryGemms(shape, kept);
        assertThat(kept.origin()).as("not measured again").startsWith("as kept");
        kept.put(name, broken);
        libraryGemms(shape, kept);
        assertThat(kept.find(name))
                .as("an invalid algorithm is measured again")
                .isPresent()
                .get()
                .isNotEqualTo(broken);
    }

    private static void libraryGemms(ModelShape shape, AutotuneCache choices) {
        try (GpuRig rig = new GpuRig(shape, SEED);
                CublasLtGemm gemms =
                        new CublasLtGemm(GpuRig.libraries().cublasLt(), rig.device, shape.type(), choices)) {
            int n = shape.hidden();
            int depth = shape.queries();
            int rows = 128;
            float[] w = rig.halves(n * depth, 1);
            float[] x = rig.halves(rows * depth, 1);
            float[] before = rig.floats(rows * n, 1);
            DeviceBuffer weights = rig.putHalves(w);
            DeviceBuffer input = rig.putHalves(x);
            DeviceBuffer added = rig.put(before);
            DeviceBuffer scratch = rig.zeros(4L * rows * n);
            Gemm gemm = new Gemm(
                    weights.address(), Optional.empty(), new Gemm.Shape(n, depth), input, scratch, Result.WIDE_ADDED);
            gemms.measure(rig.stream, gemm, List.of(weights.address()), rows);
            double[] expected = ReferenceOps.matmul(x, matrix(w, n, depth), rows);
            DeviceBuffer narrow = rig.poisoned(2L * rows * n);
            DeviceBuffer wide = rig.poisoned(4L * rows * n);
            gemms.multiply(rig.stream, writing(gemm, narrow, Result.NARROW), rows);
            gemms.multiply(rig.stream, writing(gemm, wide, Result.WIDE), rows);
            gemms.multiply(rig.stream, writing(gemm, added, Result.WIDE_ADDED), rows);
            assertThat(GpuRig.error(rig.halves(narrow, rows * n), expected)).isLessThan(KernelTest.rounding(shape));
            assertThat(GpuRig.error(rig.floats(wide, rows * n), expected)).isLessThan(1e-5);
            for (int i = 0; i < expected.length; i++) {
                expected[i] += before[i];
            }
            assertThat(GpuRig.error(rig.floats(added, rows * n), expected)).isLessThan(1e-5);
        }
    }

    private static Gemm writing(Gemm gemm, DeviceBuffer out, Result result) {
        return new Gemm(gemm.weights(), gemm.map(), gemm.shape(), gemm.x(), out, result);
    }
}
