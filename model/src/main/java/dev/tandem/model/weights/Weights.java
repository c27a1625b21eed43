package dev.tandem.model.weights;

import dev.tandem.model.ModelException;

/**
 * Named tensors, by the names of Hugging Face's Llama ({@code model.layers.0.self_attn.q_proj.weight} …) whatever the
 * file calls them. Closing unmaps the files; tensors must not be read after that.
 */
public interface Weights extends AutoCloseable {
    boolean contains(String name);

    /**
     * The tensor of this name.
     *
     * @throws ModelException when there is none of that name
     */
    Tensor tensor(String name);

    /** Where the tensors come from, for messages. */
    String origin();

    @Override
    void close();

    /** A matrix of exactly this shape. */
    default Tensor matrix(String name, int rows, int columns) {
        Tensor tensor = tensor(name);
        if (tensor.rows() != rows || tensor.columns() != columns) {
            throw new ModelException(origin() + ": tensor " + name + " has shape [" + tensor.rows() + ", "
                    + tensor.columns() + "] but the configuration asks for [" + rows + ", " + columns + "]");
        }
        return tensor;
    }

    /** A vector of exactly this length. */
    default float[] vector(String name, int length) {
        return matrix(name, 1, length).vector();
    }
}
