package dev.tandem.model.weights;

import dev.tandem.model.ModelException;
import java.util.Set;

/** The tensors of a model's files, under the files' own names. Closing it unmaps the files. */
public interface StoredTensors extends AutoCloseable {
    boolean contains(String name);

    /**
     * The tensor of this name.
     *
     * @throws ModelException when there is no such tensor
     */
    Tensor tensor(String name);

    /** The names of all tensors. */
    Set<String> names();

    /** The source of the tensors, for error messages. */
    String origin();

    @Override
    void close();
}
