package dev.tandem.model.weights;

import dev.tandem.model.ModelException;

/**
 * The tensors of a model, under the names of {@link Role} ({@code model.layers.0.self_attn.q_proj.weight} …), whatever
 * their names in the file. Closing it unmaps the files; tensors must not be read after that.
 */
public interface Weights extends AutoCloseable {
    boolean contains(String name);

    /**
     * The tensor of this name.
     *
     * @throws ModelException when there is no such tensor
     */
    Tensor tensor(String name);

    /** The source of the tensors, for error messages. */
    String origin();

    @Override
    void close();

    /** The matrix of this name, which must have exactly this shape. */
    default Tensor matrix(String name, int rows, int columns) {
        Tensor tensor = tensor(name);
        if (tensor.rows() != rows || tensor.columns() != columns) {
            throw new ModelException(origin() + ": tensor " + name + " has shape [" + tensor.rows() + ", "
                    + tensor.columns() + "] but the configuration needs [" + rows + ", " + columns + "]");
        }
        return tensor;
    }

    /** The vector of this name, which must have exactly this length. */
    default float[] vector(String name, int length) {
        return matrix(name, 1, length).vector();
    }
}
