package dev.tandem.model.weights;

import dev.tandem.model.config.ModelSpec;
import java.util.HashSet;
import java.util.Set;

/**
 * Weights that tell how much of them was asked for, so that loading can show its progress.
 *
 * <p>Owned by: the thread that reads them.
 */
public final class WatchedWeights implements Weights {
    /** Receives how far the reading is. */
    @FunctionalInterface
    public interface Reading {
        /**
         * A tensor is read for the first time.
         *
         * @param done bytes of the tensors that were asked for, this one included
         * @param total bytes of all tensors of the model
         */
        void at(long done, long total);
    }

    private final Weights weights;
    private final Reading reading;
    private final long total;
    private final Set<String> read = new HashSet<>();
    private long done;

    /** @param weights of a model's files: its tensors are looked up here for their sizes; closed with this */
    public WatchedWeights(NamedWeights weights, ModelSpec spec, Reading reading) {
        this.weights = weights;
        this.reading = reading;
        this.total = bytes(weights, spec);
    }

    private static long bytes(Weights weights, ModelSpec spec) {
        long bytes = 0;
        for (int layer = 0; layer < spec.layers().size(); layer++) {
            for (Role role : Role.values()) {
                if (role.perLayer() || layer == 0) {
                    bytes += role.hasWeight(spec) ? bytes(weights.tensor(role.tensor(layer, "weight"))) : 0;
                    bytes += role.hasBias(spec) ? bytes(weights.tensor(role.tensor(layer, "bias"))) : 0;
                }
            }
        }
        return bytes;
    }

    private static long bytes(Tensor tensor) {
        return tensor.rows() * tensor.type().bytes(tensor.columns());
    }

    @Override
    public boolean contains(String name) {
        return weights.contains(name);
    }

    @Override
    public Tensor tensor(String name) {
        Tensor tensor = weights.tensor(name);
        if (read.add(name)) {
            done += bytes(tensor);
            reading.at(done, total);
        }
        return tensor;
    }

    @Override
    public String origin() {
        return weights.origin();
    }

    @Override
    public void close() {
        weights.close();
    }
}
