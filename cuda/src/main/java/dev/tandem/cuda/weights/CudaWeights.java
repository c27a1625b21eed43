package dev.tandem.cuda.weights;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.device.TensorMap;
import dev.tandem.cuda.kernels.DecoderVariant;
import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.weights.DummyWeights;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Role;
import dev.tandem.model.weights.Tensor;
import dev.tandem.model.weights.Weights;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * A model's weights in GPU memory, row-major and padded ({@link ModelShape}). q, k and v are one matrix, and so are
 * gate and up. The GPU generates dummy weights itself.
 *
 * <p>Closing frees them. Owned by: the executor.
 */
public final class CudaWeights implements AutoCloseable {
    private static final int STAGING_BYTES = 64 << 20;
    private static final int ALIGNMENT = 256;

    /**
     * GPU addresses of a layer's weights; 0 where the model has none. Norms and biases are fp32.
     *
     * @param queryNorm [headWidth], or [heads, headWidth] where the norm is over all heads
     * @param keyNorm [headWidth], or [kvHeads, headWidth]
     * @param attentionNorm of attention's output projection
     * @param mlpNorm of the down projection
     */
    public record Layer(
            long inputNorm,
            long qkv,
            long qkvBias,
            long queryNorm,
            long keyNorm,
            long output,
            long attentionNorm,
            long mlpInputNorm,
            long gateUp,
            long down,
            long mlpNorm) {}

    private final ModelShape shape;
    private final Weights source;
    private final Kernels kernels;
    private final Stream stream;
    private final PinnedBuffer staging;
    private final DeviceBuffer memory;
    private final boolean dummy;
    private long next;
    /**
     * Tensor maps of a layer's matrices.
     *
     * @param gatePairs gate and up in turns, 8 rows each
     */
    public record Maps(TensorMap qkv, TensorMap output, TensorMap gateUp, TensorMap gatePairs, TensorMap down) {}

    /** Per layer; empty on GPUs without Tensor Memory Accelerator. */
    public final List<Maps> maps = new ArrayList<>();

    public final Optional<TensorMap> headMap;
    public final long embeddings;
    public final long head;
    public final long norm;
    public final List<Layer> layers = new ArrayList<>();

    public CudaWeights(Device device, Stream stream, Kernels kernels, ModelShape shape, Checkpoint checkpoint) {
        this.shape = shape;
        this.source = checkpoint.weights();
        this.kernels = kernels;
        this.stream = stream;
        this.dummy = source instanceof DummyWeights;
        ModelConfig config = shape.config();
        this.memory = device.allocate(bytes(shape), "weights");
        this.next = memory.address();
        this.staging = device.pinned(STAGING_BYTES, "staging of weights");
        try {
            stream.fill(memory, 0);
            embeddings = matrix(shape.vocabulary(), shape.hidden());
            rows(
                    "model.embed_tokens.weight",
                    config.vocabulary(),
                    config.hidden(),
                    Placement.plain(embeddings, shape.hidden()));
            for (int i = 0; i < config.layers(); i++) {
                layers.add(layer(i));
            }
            norm = vector(source.vector("model.norm.weight", config.hidden()), shape.hidden());
            if (config.tiedEmbeddings()) {
                head = embeddings;
            } else {
                head = matrix(shape.vocabulary(), shape.hidden());
                rows("lm_head.weight", config.vocabulary(), config.hidden(), Placement.plain(head, shape.hidden()));
            }
            if (kernels.hasTma()) {
                layers.forEach(layer -> maps.add(new Maps(
                        map(device, layer.qkv(), shape.qkv(), shape.hidden()),
                        map(device, layer.output(), shape.hidden(), shape.queries()),
                        map(device, layer.gateUp(), 2 * shape.intermediate(), shape.hidden()),
                        TensorMap.pairs(device, layer.gateUp(), shape.intermediate(), shape.hidden(), shape.type()),
                        map(device, layer.down(), shape.hidden(), shape.intermediate()))));
                headMap = Optional.of(map(device, head, shape.vocabulary(), shape.hidden()));
            } else {
                headMap = Optional.empty();
            }
            stream.synchronise();
        } catch (RuntimeException | Error e) {
            memory.close();
            throw e;
        } finally {
            staging.close();
        }
    }

    private TensorMap map(Device device, long address, int rows, int columns) {
        return TensorMap.of(device, address, rows, columns, KernelConstants.BOX_ROWS, shape.type());
    }

    public ModelShape shape() {
        return shape;
    }

    /** Bytes of all weights of a model. */
    public static long bytes(ModelShape shape) {
        ModelConfig config = shape.config();
        long element = shape.type().bytes();
        long layer = element * shape.hidden() * ((long) shape.qkv() + shape.queries() + 3L * shape.intermediate())
                + 4L * (4L * shape.hidden() + 2L * shape.qkv() + 2L * shape.headWidth())
                + 11L * ALIGNMENT;
        long ends = (config.tiedEmbeddings() ? 1L : 2L) * (element * shape.vocabulary() * shape.hidden() + ALIGNMENT);
        return layer * config.layers() + ends + 4L * shape.hidden() + ALIGNMENT;
    }

    /** Bytes of weights that a decoding step reads. */
    public long bytesRead() {
        long element = shape.type().bytes();
        return element
                        * shape.hidden()
                        * ((long) shape.qkv() + shape.queries() + 3L * shape.intermediate())
                        * layers.size()
                + element * shape.vocabulary() * shape.hidden();
    }

    public long bytes() {
        return memory.bytes();
    }

    private Layer layer(int index) {
        String prefix = "model.layers." + index + ".";
        ModelConfig config = shape.config();
        DecoderVariant variant = shape.variant();
        int hidden = config.hidden();
        int headDim = config.headDim();
        int queries = config.heads() * headDim;
        int keys = config.kvHeads() * headDim;
        String attention = prefix + "self_attn.";
        long qkv = matrix(shape.qkv(), shape.hidden());
        long keyRow = (long) shape.queries() * shape.hidden() * shape.type().bytes();
        long valueRow = keyRow
                + (long) config.kvHeads()
                        * shape.headWidth()
                        * shape.hidden()
                        * shape.type().bytes();
        Placement heads = new Placement(qkv, shape.hidden(), headDim, shape.headWidth(), Integer.MAX_VALUE, 0);
        rows(attention + "q_proj.weight", queries, hidden, heads);
        rows(attention + "k_proj.weight", keys, hidden, heads.at(qkv + keyRow));
        rows(attention + "v_proj.weight", keys, hidden, heads.at(qkv + valueRow));
        long output = matrix(shape.hidden(), shape.queries());
        rows(
                attention + "o_proj.weight",
                hidden,
                queries,
                new Placement(output, shape.queries(), Integer.MAX_VALUE, 0, headDim, shape.headWidth()));
        long gateUp = matrix(2 * shape.intermediate(), shape.hidden());
        rows(prefix + "mlp.gate_proj.weight", config.intermediate(), hidden, Placement.plain(gateUp, shape.hidden()));
        rows(
                prefix + "mlp.up_proj.weight",
                config.intermediate(),
                hidden,
                Placement.plain(
                        gateUp
                                + (long) shape.intermediate()
                                        * shape.hidden()
                                        * shape.type().bytes(),
                        shape.hidden()));
        long down = matrix(shape.hidden(), shape.intermediate());
        rows(
                prefix + "mlp.down_proj.weight",
                hidden,
                config.intermediate(),
                Placement.plain(down, shape.intermediate()));
        return new Layer(
                norm(variant.norms().onInputs(), Role.ATTENTION_INPUT_NORM, index),
                qkv,
                config.qkvBias() ? vector(bias(attention, queries, keys), shape.qkv()) : 0,
                headNorm(Role.QUERY_NORM, index, config.heads(), (float) variant.queryScale()),
                headNorm(Role.KEY_NORM, index, config.kvHeads(), 1),
                output,
                norm(variant.norms().onOutputs(), Role.ATTENTION_OUTPUT_NORM, index),
                norm(variant.norms().onInputs(), Role.MLP_INPUT_NORM, index),
                gateUp,
                down,
                norm(variant.norms().onOutputs(), Role.MLP_OUTPUT_NORM, index));
    }

    private long norm(boolean exists, Role role, int layer) {
        int hidden = shape.config().hidden();
        return exists ? vector(source.vector(role.tensor(layer, "weight"), hidden), shape.hidden()) : 0;
    }

    /** The norm of q or k, times a factor. */
    private long headNorm(Role role, int layer, int heads, float factor) {
        int normed = switch (shape.variant().qkNorm()) {
            case NONE -> 0;
            case PER_HEAD -> 1;
            case WHOLE_ROW -> heads;
        };
        if (normed == 0) {
            return 0;
        }
        float[] weight = source.vector(
                role.tensor(layer, "weight"), normed * shape.config().headDim());
        for (int i = 0; i < weight.length; i++) {
            weight[i] *= factor;
        }
        return vector(padded(weight), normed * shape.headWidth());
    }

    private float[] bias(String attention, int queries, int keys) {
        float[] dense = new float[queries + 2 * keys];
        source.matrix(attention + "q_proj.bias", 1, queries).row(0, dense, 0);
        source.matrix(attention + "k_proj.bias", 1, keys).row(0, dense, queries);
        source.matrix(attention + "v_proj.bias", 1, keys).row(0, dense, queries + keys);
        return padded(dense);
    }

    /** Whole heads, each padded to its width on the GPU. */
    private float[] padded(float[] heads) {
        int headDim = shape.config().headDim();
        float[] padded = new float[heads.length / headDim * shape.headWidth()];
        for (int i = 0; i < heads.length; i++) {
            padded[i / headDim * shape.headWidth() + i % headDim] = heads[i];
        }
        return padded;
    }

    private long take(long bytes) {
        long address = next;
        next += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        return address;
    }

    private long matrix(int rows, int columns) {
        return take((long) rows * columns * shape.type().bytes());
    }

    private long vector(float[] values, int width) {
        long address = take(4L * width);
        MemorySegment.copy(values, 0, staging.memory(), ValueLayout.JAVA_FLOAT, 0, values.length);
        stream.upload(memory, address - memory.address(), staging.memory(), 4L * values.length);
        stream.synchronise();
        return address;
    }

    /**
     * Where a tensor's rows are placed. Rows come in groups of {@code rowGroup} that start {@code rowStep} apart,
     * columns in groups of {@code columnGroup} that start {@code columnStep} apart.
     */
    private record Placement(long address, int stride, int rowGroup, int rowStep, int columnGroup, int columnStep) {
        static Placement plain(long address, int stride) {
            return new Placement(address, stride, Integer.MAX_VALUE, 0, Integer.MAX_VALUE, 0);
        }

        Placement at(long other) {
            return new Placement(other, stride, rowGroup, rowStep, columnGroup, columnStep);
        }

        int row(int row) {
            return row / rowGroup * rowStep + row % rowGroup;
        }

        boolean consecutive(int rows) {
            return rowGroup >= rows || rowGroup == rowStep;
        }

        boolean wholeRows(int columns) {
            return columnGroup >= columns || columnGroup == columnStep;
        }
    }

    private void rows(String name, int rows, int columns, Placement placement) {
        if (dummy && placement.consecutive(rows) && placement.wholeRows(columns)) {
            float scale = (float) Math.sqrt(3.0 / columns);
            kernels.randomFill.launch(
                    stream,
                    4096,
                    1,
                    placement.address(),
                    (long) rows * placement.stride(),
                    placement.stride(),
                    columns,
                    name.hashCode() * 0x9E3779B97F4A7C15L,
                    0f,
                    scale);
            return;
        }
        Tensor tensor = source.matrix(name, rows, columns);
        long paddedRowBytes = (long) placement.stride() * shape.type().bytes();
        int max = (int) Math.min(rows, STAGING_BYTES / paddedRowBytes);
        for (int from = 0; from < rows; ) {
            int end = Math.min(rows, from + max);
            if (!placement.consecutive(rows)) {
                end = Math.min(end, (from / placement.rowGroup() + 1) * placement.rowGroup());
            }
            int first = from;
            stream.synchronise();
            staging.memory().asSlice(0, (end - from) * paddedRowBytes).fill((byte) 0);
            IntStream.range(from, end)
                    .parallel()
                    .forEach(row -> stage(tensor, row, (row - first) * paddedRowBytes, placement));
            long target = placement.address() + placement.row(from) * paddedRowBytes;
            stream.upload(memory, target - memory.address(), staging.memory(), (end - from) * paddedRowBytes);
            from = end;
        }
        stream.synchronise();
    }

    private void stage(Tensor tensor, int row, long to, Placement placement) {
        boolean same = tensor.type() == ElementType.BF16 && shape.type() == DataType.BFLOAT16
                || tensor.type() == ElementType.F16 && shape.type() == DataType.FLOAT16;
        if (same && placement.wholeRows(tensor.columns())) {
            MemorySegment.copy(
                    tensor.data(),
                    tensor.rowOffset(row),
                    staging.memory(),
                    to,
                    tensor.type().bytes(tensor.columns()));
            return;
        }
        float[] values = new float[tensor.columns()];
        tensor.row(row, values, 0);
        for (int i = 0; i < values.length; i++) {
            int column = i / placement.columnGroup() * placement.columnStep() + i % placement.columnGroup();
            staging.memory().set(ValueLayout.JAVA_SHORT, to + 2L * column, HalfFloats.narrow(values[i], shape.type()));
        }
    }

    @Override
    public void close() {
        memory.close();
    }
}
