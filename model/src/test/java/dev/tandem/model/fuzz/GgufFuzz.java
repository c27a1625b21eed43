package dev.tandem.model.fuzz;

import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.ModelException;
import dev.tandem.model.config.RopeFrequencies;
import dev.tandem.model.weights.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Fuzz target: opening a GGUF file returns a model with readable tensors or throws a ModelException. */
public final class GgufFuzz {
    private static final Path FILE = FuzzFolder.create().resolve("model.gguf");

    private GgufFuzz() {}

    public static void fuzzerTestOneInput(byte[] data) throws IOException {
        Files.write(FILE, data);
        try (Checkpoint checkpoint = Checkpoint.open(FILE, LoadFormat.AUTO, 0)) {
            RopeFrequencies.of(checkpoint.config().rope(), checkpoint.config().headDim());
            for (String name : new String[] {"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight"}) {
                if (checkpoint.weights().contains(name)) {
                    Tensor tensor = checkpoint.weights().tensor(name);
                    tensor.type().unpack(tensor.data(), 0, tensor.columns(), new float[tensor.columns()], 0);
                }
            }
        } catch (ModelException e) {
            FuzzFolder.requireMessage(e);
        }
    }
}
