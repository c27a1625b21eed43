package dev.tandem.cuda.kernels;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.step.StepBuffer;
import dev.tandem.cuda.step.TableSizes;
import dev.tandem.cuda.weights.HalfFloats;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.kv.KvWindow;
import dev.tandem.fetch.IndexLocation;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.WheelSource;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.Rope;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;

/** A GPU with compiled kernels, and copies of arrays to and from it. Closing frees all memory that it allocated. */
public final class GpuRig implements AutoCloseable {
    public final Device device;
    public final Stream stream;
    public final Kernels kernels;
    public final ModelShape shape;
    final SplittableRandom random;
    private final List<AutoCloseable> buffers = new ArrayList<>();

    public GpuRig(ModelShape shape, long seed) {
        this(shape, seed, compiler());
    }

    public GpuRig(ModelShape shape, long seed, KernelCompiler compiler) {
        this.shape = shape;
        this.random = new SplittableRandom(seed);
        this.device = new Device(CudaLibraries.driver().orElseThrow(), 0, 0);
        this.stream = device.stream("test");
        this.kernels = new Kernels(device, shape, compiler, Progress.SILENT);
    }

    public static CudaLibraries libraries() {
        return new CudaLibraries(
                new CudaLibraries.Choice.Automatic(), System.getenv(), GpuRig::wheels, CudaLibraries.driverVersion());
    }

    private static WheelSource wheels() {
        Path home = Path.of(System.getProperty("user.home"));
        return new WheelSource(() -> IndexLocation.find(System.getenv(), home), cache(), Progress.SILENT);
    }

    private static Path cache() {
        Path home = Path.of(System.getProperty("user.home"));
        return Path.of(System.getenv()
                .getOrDefault("TANDEM_CACHE", home.resolve(".cache/tandem").toString()));
    }

    public static KernelCompiler compiler() {
        return new KernelCompiler(() -> libraries().nvrtc(), cache().resolve("kernels"));
    }

    public static ModelShape shape(
            int heads, int kvHeads, int headDim, int hidden, int intermediate, int vocabulary, DataType type) {
        return shape(2, heads, kvHeads, headDim, hidden, intermediate, vocabulary, type);
    }

    public static ModelShape shape(
            int layers,
            int heads,
            int kvHeads,
            int headDim,
            int hidden,
            int intermediate,
            int vocabulary,
            DataType type) {
        return new ModelShape(
                new ModelConfig(
                        "llama",
                        hidden,
                        layers,
                        heads,
                        kvHeads,
                        headDim,
                        intermediate,
                        vocabulary,
                        4096,
                        1e-5,
                        Rope.Rotary.plain(headDim),
                        false,
                        false,
                        false,
                        List.of(),
                        type,
                        Set.of()),
                type);
    }

    /** The same sizes with another variant. */
    static ModelShape variant(ModelShape shape, DecoderVariant variant) {
        return new ModelShape(shape.config(), variant, shape.type());
    }

    /** The same shape with a sliding window in its layers. */
    public static ModelShape windowed(ModelShape shape, int window) {
        return withWindows(shape, Collections.nCopies(shape.config().layers(), window));
    }

    /** The same shape with other sliding windows of its layers, 0 for none. */
    public static ModelShape withWindows(ModelShape shape, List<Integer> windows) {
        ModelConfig c = shape.config();
        return new ModelShape(
                new ModelConfig(
                        c.family(),
                        c.hidden(),
                        c.layers(),
                        c.heads(),
                        c.kvHeads(),
                        c.headDim(),
                        c.intermediate(),
                        c.vocabulary(),
                        c.contextTokens(),
                        c.normEpsilon(),
                        c.rope(),
                        c.tiedEmbeddings(),
                        c.qkvBias(),
                        c.qkNorm(),
                        windows,
                        c.fileType(),
                        c.endTokens()),
                shape.type());
    }

    /** The block tables of a step buffer for models with one group of layers. */
    public static TableSizes tables(int max) {
        return new TableSizes(KvLayout.of(KvWindow.NONE), List.of(max));
    }

    /** Appends a sequence's block table in the one group of layers. */
    static StepBuffer.Table table(StepBuffer step, int[] blocks) {
        return step.table(List.of(KvView.of(blocks)), blocks.length);
    }

    /** Random values that 16-bit floats represent exactly, so that inputs have no rounding error. */
    float[] halves(int count, double scale) {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = HalfFloats.widen(
                    HalfFloats.narrow((float) (scale * (2 * random.nextDouble() - 1)), shape.type()), shape.type());
        }
        return values;
    }

    float[] floats(int count, double scale) {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) (scale * (2 * random.nextDouble() - 1));
        }
        return values;
    }

    public DeviceBuffer put(MemorySegment data) {
        DeviceBuffer buffer = device.allocate(data.byteSize(), "test data");
        buffers.add(buffer);
        try (PinnedBuffer staging = device.pinned(data.byteSize(), "test staging")) {
            MemorySegment.copy(data, 0, staging.memory(), 0, data.byteSize());
            stream.upload(buffer, 0, staging.memory(), data.byteSize());
            stream.synchronise();
        }
        return buffer;
    }

    public DeviceBuffer put(float[] values) {
        return put(MemorySegment.ofArray(values));
    }

    public DeviceBuffer put(int[] values) {
        return put(MemorySegment.ofArray(values));
    }

    DeviceBuffer putHalves(float[] values) {
        short[] bits = new short[values.length];
        for (int i = 0; i < values.length; i++) {
            bits[i] = HalfFloats.narrow(values[i], shape.type());
        }
        return put(MemorySegment.ofArray(bits));
    }

    /** A buffer for results, filled with NaN. */
    public DeviceBuffer poisoned(long bytes) {
        DeviceBuffer buffer = device.allocate((bytes + 3) / 4 * 4, "test results");
        buffers.add(buffer);
        stream.fill(buffer, -1);
        return buffer;
    }

    DeviceBuffer zeros(long bytes) {
        DeviceBuffer buffer = poisoned(bytes);
        stream.fill(buffer, 0);
        return buffer;
    }

    public MemorySegment get(DeviceBuffer buffer, long bytes) {
        try (PinnedBuffer staging = device.pinned(bytes, "test staging")) {
            stream.download(staging.memory(), buffer, 0, bytes);
            stream.synchronise();
            return MemorySegment.ofArray(staging.memory().asSlice(0, bytes).toArray(JAVA_BYTE));
        }
    }

    float[] floats(DeviceBuffer buffer, int count) {
        float[] values = new float[count];
        MemorySegment.copy(get(buffer, 4L * count), 0, MemorySegment.ofArray(values), 0, 4L * count);
        return values;
    }

    public int[] ints(DeviceBuffer buffer, int count) {
        int[] values = new int[count];
        MemorySegment.copy(get(buffer, 4L * count), 0, MemorySegment.ofArray(values), 0, 4L * count);
        return values;
    }

    float[] halves(DeviceBuffer buffer, int count) {
        short[] bits = new short[count];
        MemorySegment.copy(get(buffer, 2L * count), 0, MemorySegment.ofArray(bits), 0, 2L * count);
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = HalfFloats.widen(bits[i], shape.type());
        }
        return values;
    }

    /** Relative error ‖actual − expected‖ / ‖expected‖ in the L2 norm; NaN if any value is NaN. */
    public static double error(float[] actual, double[] expected) {
        double difference = 0;
        double norm = 0;
        for (int i = 0; i < expected.length; i++) {
            difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
            norm += expected[i] * expected[i];
        }
        return Math.sqrt(difference / norm);
    }

    @Override
    public void close() {
        for (AutoCloseable buffer : buffers) {
            try {
                buffer.close();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }
        kernels.close();
        stream.close();
        device.close();
    }
}
