package dev.tandem.model.weights;

import dev.tandem.model.ModelException;
import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.ModelSpec;
import java.lang.foreign.MemorySegment;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntUnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The tensors of a model's files under the names of {@link Role}, in the model's order of rows. Rows of matrices that a
 * file stores as one are split, and the dimensions of q and k heads re-ordered, weights and biases alike.
 */
public final class NamedWeights implements Weights {
    private static final Pattern NAME = Pattern.compile("(?:model\\.layers\\.(\\d+)\\.)?(.+)\\.(weight|bias)");
    /** Constants that old files of Llama carry, and that the configuration gives as well. */
    private static final String ROTATION = "rotary_emb.inv_freq";

    private final StoredTensors stored;
    private final NameTable table;
    private final ModelSpec spec;

    /** @param stored is closed with the weights */
    public NamedWeights(StoredTensors stored, NameTable table, ModelSpec spec) {
        this.stored = stored;
        this.table = table;
        this.spec = spec;
    }

    /** The tensors as the files have them. */
    public StoredTensors stored() {
        return stored;
    }

    private record Location(Role role, NameTable.Source source, String file, boolean bias) {}

    private Optional<Location> locate(String name) {
        Matcher matcher = NAME.matcher(name);
        if (!matcher.matches()) {
            return Optional.empty();
        }
        return Role.of(matcher.group(2))
                .filter(role -> role.perLayer() == (matcher.group(1) != null))
                .flatMap(role -> Optional.ofNullable(table.sources().get(role)).map(source -> {
                    String prefix = role.perLayer() ? table.layerPrefix().formatted(matcher.group(1)) : "";
                    String suffix = matcher.group(3);
                    return new Location(role, source, prefix + source.name() + "." + suffix, suffix.equals("bias"));
                }));
    }

    @Override
    public boolean contains(String name) {
        return locate(name).map(Location::file).map(stored::contains).orElse(false);
    }

    @Override
    public Tensor tensor(String name) {
        Location at = locate(name)
                .orElseThrow(() -> new ModelException(origin() + ": files of this family have no tensor " + name));
        Tensor tensor = part(at, stored.tensor(at.file()));
        if (at.role().isNorm() && table.normOffset() != 0) {
            return shifted(tensor, table.normOffset());
        }
        boolean heads = at.role() == Role.QUERY || at.role() == Role.KEY;
        int rotating = spec.rotary().dims();
        int headDim = spec.attention().headDim();
        boolean asStored = table.headOrder() == NameTable.HeadOrder.HALVES && rotating == headDim;
        if (!heads || asStored) {
            return tensor;
        }
        IntUnaryOperator order = i -> i / headDim * headDim + table.headOrder().stored(i % headDim, headDim, rotating);
        return at.bias() ? reordered(tensor, order) : tensor.inOrder(order);
    }

    /** The rows of a stored matrix that belong to the role; of a bias, the values. */
    private Tensor part(Location at, Tensor whole) {
        LayerSpec.Attention attention = spec.attention();
        int queries = attention.queries();
        int keys = attention.keys();
        int width = spec.intermediate();
        return switch (at.source().rows()) {
            case ALL -> whole;
            case QUERIES -> slice(whole, at.file(), 0, queries, queries + 2 * keys);
            case KEYS -> slice(whole, at.file(), queries, keys, queries + 2 * keys);
            case VALUES -> slice(whole, at.file(), queries + keys, keys, queries + 2 * keys);
            case GATE -> slice(whole, at.file(), 0, width, 2 * width);
            case UP -> slice(whole, at.file(), width, width, 2 * width);
        };
    }

    private Tensor slice(Tensor whole, String file, int from, int rows, int all) {
        if (whole.rows() != all) {
            throw new ModelException(origin() + ": tensor " + file + " has " + whole.rows()
                    + " rows but the configuration needs " + all);
        }
        long rowBytes = whole.type().bytes(whole.columns());
        return Tensor.of(
                file, whole.type(), rows, whole.columns(), whole.data().asSlice(from * rowBytes, rows * rowBytes));
    }

    private static Tensor reordered(Tensor vector, IntUnaryOperator order) {
        float[] values = vector.vector();
        float[] ordered = new float[values.length];
        for (int i = 0; i < values.length; i++) {
            ordered[i] = values[order.applyAsInt(i)];
        }
        return vector(vector.name(), ordered);
    }

    private static Tensor shifted(Tensor vector, float offset) {
        float[] values = vector.vector();
        for (int i = 0; i < values.length; i++) {
            values[i] += offset;
        }
        return vector(vector.name(), values);
    }

    private static Tensor vector(String name, float[] values) {
        MemorySegment data = MemorySegment.ofArray(new byte[Float.BYTES * values.length]);
        for (int i = 0; i < values.length; i++) {
            data.set(PlainUnpacking.FLOAT, (long) Float.BYTES * i, values[i]);
        }
        return Tensor.of(name, ElementType.F32, 1, values.length, data);
    }

    /**
     * Checks that every tensor that the model needs is there with its shape, and that no layer has one that nothing
     * would read: a model with another bias or norm computes something else.
     *
     * @throws ModelException that names the tensor
     */
    public void check() {
        Set<String> read = new HashSet<>();
        for (int layer = 0; layer < spec.layers().size(); layer++) {
            for (Role role : Role.values()) {
                if (role.perLayer() || layer == 0) {
                    check(role, layer, read);
                }
            }
        }
        String first = table.layerPrefix().substring(0, table.layerPrefix().indexOf("%s"));
        for (String name : stored.names()) {
            if (name.startsWith(first) && !read.contains(name) && !name.endsWith(ROTATION)) {
                throw new ModelException(
                        origin() + ": the tensor " + name + " is not supported in models of the family "
                                + spec.family() + " with " + spec.layers().size()
                                + " layers; without it the model would compute something else");
            }
        }
    }

    private void check(Role role, int layer, Set<String> read) {
        Role.Shape shape = role.shape(spec);
        if (role.hasWeight(spec)) {
            String name = role.tensor(layer, "weight");
            matrix(name, shape.rows(), shape.columns());
            read.add(locate(name).orElseThrow().file());
        }
        if (role.hasBias(spec)) {
            String name = role.tensor(layer, "bias");
            matrix(name, 1, shape.rows());
            read.add(locate(name).orElseThrow().file());
        }
    }

    @Override
    public String origin() {
        return stored.origin();
    }

    @Override
    public void close() {
        stored.close();
    }
}
