package dev.tandem.model.weights;

import dev.tandem.model.ModelException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * {@code model.safetensors}, or the shards that {@code model.safetensors.index.json} lists. A file is an 8-byte header
 * length, a JSON header with each tensor's type, shape and byte range, then the bytes.
 */
public final class SafetensorsWeights implements Weights {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ValueLayout.OfLong LENGTH = ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final long MAX_HEADER = 100L << 20;

    private final Path directory;
    private final Arena arena = Arena.ofShared();
    private final Map<String, Tensor> tensors = new HashMap<>();

    private SafetensorsWeights(Path directory) {
        this.directory = directory;
    }

    public static SafetensorsWeights open(Path directory) {
        SafetensorsWeights weights = new SafetensorsWeights(directory);
        try {
            for (String file : files(directory)) {
                weights.read(directory.resolve(file));
            }
            return weights;
        } catch (RuntimeException e) {
            weights.close();
            throw e;
        }
    }

    private static SortedSet<String> files(Path directory) {
        SortedSet<String> files = new TreeSet<>();
        Path index = directory.resolve("model.safetensors.index.json");
        if (Files.exists(index)) {
            try {
                JSON.readTree(Files.readAllBytes(index)).path("weight_map").forEach(file -> files.add(file.asString()));
            } catch (IOException | JacksonException e) {
                throw new ModelException(index + " cannot be read: " + e.getMessage(), e);
            }
            if (files.isEmpty()) {
                throw new ModelException(index + " lists no files under 'weight_map'");
            }
        } else if (Files.exists(directory.resolve("model.safetensors"))) {
            files.add("model.safetensors");
        } else {
            throw new ModelException(
                    directory + " holds neither model.safetensors nor model.safetensors.index.json; for random weights use"
                            + " --load-format dummy");
        }
        return files;
    }

    private void read(Path file) {
        MemorySegment bytes = MappedFile.map(file, arena);
        if (bytes.byteSize() < 8) {
            throw new ModelException(file + " is truncated: " + bytes.byteSize() + " bytes");
        }
        long header = bytes.get(LENGTH, 0);
        if (header < 2 || header > MAX_HEADER || 8 + header > bytes.byteSize()) {
            throw new ModelException(file + " is not a safetensors file, or truncated: its header would have " + header
                    + " bytes and the file has " + bytes.byteSize());
        }
        JsonNode root;
        try {
            root = JSON.readTree(bytes.asSlice(8, header).toArray(ValueLayout.JAVA_BYTE));
        } catch (JacksonException e) {
            throw new ModelException(file + ": the safetensors header is not valid JSON: " + e.getOriginalMessage(), e);
        }
        MemorySegment data = bytes.asSlice(8 + header);
        root.propertyStream()
                .filter(entry -> !entry.getKey().equals("__metadata__"))
                .forEach(entry -> tensors.put(entry.getKey(), tensor(file, entry.getKey(), entry.getValue(), data)));
    }

    private static Tensor tensor(Path file, String name, JsonNode entry, MemorySegment data) {
        ElementType type = switch (entry.path("dtype").asString("")) {
            case "F32" -> ElementType.F32;
            case "F16" -> ElementType.F16;
            case "BF16" -> ElementType.BF16;
            default -> throw new ModelException(file + ": tensor " + name + " has data type "
                    + entry.path("dtype") + "; supported are F32, F16 and BF16");
        };
        long[] shape = shape(file, name, entry.path("shape"));
        long from = entry.path("data_offsets").path(0).asLong(-1);
        long to = entry.path("data_offsets").path(1).asLong(-1);
        long expected = type.bytes(Math.multiplyExact(shape[0], shape[1]));
        if (from < 0 || to < from || to > data.byteSize()) {
            throw new ModelException(file + " is truncated: tensor " + name + " lies at bytes [" + from + ", " + to
                    + ") of " + data.byteSize());
        }
        if (to - from != expected) {
            throw new ModelException(file + ": tensor " + name + " has " + (to - from) + " bytes but its shape "
                    + entry.path("shape") + " needs " + expected);
        }
        return Tensor.of(name, type, (int) shape[0], (int) shape[1], data.asSlice(from, expected));
    }

    private static long[] shape(Path file, String name, JsonNode shape) {
        if (!shape.isArray() || shape.isEmpty() || shape.size() > 2) {
            throw new ModelException(file + ": tensor " + name + " has shape " + shape + "; vectors and matrices are supported");
        }
        long rows = shape.size() == 2 ? shape.get(0).asLong(-1) : 1;
        long columns = shape.get(shape.size() - 1).asLong(-1);
        if (rows < 1 || columns < 1 || rows > Integer.MAX_VALUE || columns > Integer.MAX_VALUE) {
            throw new ModelException(file + ": tensor " + name + " has the impossible shape " + shape);
        }
        return new long[] {rows, columns};
    }

    @Override
    public boolean contains(String name) {
        return tensors.containsKey(name);
    }

    @Override
    public Tensor tensor(String name) {
        Tensor tensor = tensors.get(name);
        if (tensor == null) {
            throw new ModelException(directory + " has no tensor " + name + " among its " + tensors.size());
        }
        return tensor;
    }

    @Override
    public String origin() {
        return directory.toString();
    }

    @Override
    public void close() {
        arena.close();
    }
}
