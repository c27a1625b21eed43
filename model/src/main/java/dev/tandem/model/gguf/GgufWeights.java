package dev.tandem.model.gguf;

import dev.tandem.model.ModelException;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.StoredTensors;
import dev.tandem.model.weights.Tensor;
import java.util.Set;

/** The tensors of a GGUF file. */
public final class GgufWeights implements StoredTensors {
    private final GgufFile file;

    /** @param file is closed with the weights */
    public GgufWeights(GgufFile file) {
        this.file = file;
    }

    @Override
    public boolean contains(String name) {
        return file.tensors().containsKey(name);
    }

    @Override
    public Tensor tensor(String name) {
        Tensor tensor = file.tensors().get(name);
        if (tensor == null) {
            throw new ModelException(file.path() + " has no tensor " + name + " among its "
                    + file.tensors().size());
        }
        return tensor;
    }

    @Override
    public Set<String> names() {
        return Set.copyOf(file.tensors().keySet());
    }

    /** The element types of the matrices; see {@link GgufFile#matrixTypes}. */
    public Set<ElementType> matrixTypes() {
        return file.matrixTypes();
    }

    @Override
    public String origin() {
        return file.path().toString();
    }

    @Override
    public void close() {
        file.close();
    }
}
