package dev.tandem.model.fuzz;

import dev.tandem.model.ModelException;
import dev.tandem.model.weights.SafetensorsWeights;
import dev.tandem.model.weights.Tensor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Fuzz target: the first byte gives the kind of the rest: 'R' a whole file, 'H' a header before 64 bytes of data, 'I'
 * the index of a model of one valid shard. Opening returns readable tensors or throws a ModelException.
 */
public final class SafetensorsFuzz {
    private static final byte[] VALID_HEADER =
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[4,4],\"data_offsets\":[0,64]}}".getBytes();
    private static final Path FOLDER = FuzzFolder.create();

    private SafetensorsFuzz() {}

    public static void fuzzerTestOneInput(byte[] data) throws IOException {
        byte[] rest = data.length == 0 ? data : Arrays.copyOfRange(data, 1, data.length);
        Path index = FOLDER.resolve("model.safetensors.index.json");
        Path file = FOLDER.resolve("model.safetensors");
        Files.deleteIfExists(index);
        switch (data.length == 0 ? 'R' : data[0]) {
            case 'H' -> Files.write(file, withHeader(rest));
            case 'I' -> {
                Files.write(file, withHeader(VALID_HEADER));
                Files.write(index, rest);
            }
            default -> Files.write(file, rest);
        }
        try (SafetensorsWeights weights = SafetensorsWeights.open(FOLDER)) {
            for (String name : new String[] {"a", "b", "model.norm.weight"}) {
                if (weights.contains(name)) {
                    Tensor tensor = weights.tensor(name);
                    tensor.row(tensor.rows() - 1, new float[tensor.columns()], 0);
                }
            }
        } catch (ModelException e) {
            FuzzFolder.requireMessage(e);
        }
    }

    private static byte[] withHeader(byte[] header) {
        ByteBuffer file = ByteBuffer.allocate(8 + header.length + 64).order(ByteOrder.LITTLE_ENDIAN);
        return file.putLong(header.length).put(header).array();
    }
}
