package dev.tandem.model.weights;

import dev.tandem.model.ModelException;
import dev.tandem.model.ModelFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;
import tools.jackson.core.ObjectReadContext;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * The tensors of {@code model.safetensors}, or of the shards that {@code model.safetensors.index.json} lists. A file
 * has an 8-byte header length, a JSON header with each tensor's type, shape and byte range, and the data.
 */
public final class SafetensorsWeights implements StoredTensors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ValueLayout.OfLong LENGTH = ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    /** A tensor takes about 100 bytes in the header; the largest models have about 3,000 tensors. */
    private static final long MAX_HEADER = 32L << 20;
    /** A tensor takes about 100 bytes in the index, too. */
    private static final long MAX_INDEX = 32L << 20;
    /** One more than the dimensions of a supported shape, so that a longer one is recognised. */
    private static final int MAX_NUMBERS = 5;

    private static final JsonFactory HEADERS = JsonFactory.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .build();

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
                JSON.readTree(ModelFile.read(index, MAX_INDEX))
                        .path("weight_map")
                        .forEach(file -> files.add(plainName(index, file)));
            } catch (IOException | JacksonException e) {
                throw new ModelException(index + " cannot be read: " + e.getMessage(), e);
            }
            if (files.isEmpty()) {
                throw new ModelException(index + " lists no files under 'weight_map'");
            }
        } else if (Files.exists(directory.resolve("model.safetensors"))) {
            files.add("model.safetensors");
        } else {
            throw new ModelException(directory
                    + " has neither model.safetensors nor model.safetensors.index.json; for random weights use"
                    + " --load-format dummy");
        }
        return files;
    }

    /** An index may name only files in its own directory, so that a model cannot make the server open other files. */
    private static String plainName(Path index, JsonNode file) {
        String name = file.isString() ? file.stringValue() : "";
        if (!name.endsWith(".safetensors") || name.contains("/") || name.contains("\\") || name.indexOf(0) >= 0) {
            throw new ModelException(index + " lists the file " + file
                    + "; it must be the name of a .safetensors file in the same directory");
        }
        return name;
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
        MemorySegment data = bytes.asSlice(8 + header);
        byte[] json = bytes.asSlice(8, header).toArray(ValueLayout.JAVA_BYTE);
        try (JsonParser parser = HEADERS.createParser(ObjectReadContext.empty(), json)) {
            readHeader(file, parser, data);
        } catch (JacksonException e) {
            throw new ModelException(file + ": the safetensors header is not valid JSON: " + e.getOriginalMessage(), e);
        }
    }

    /** Parses token by token, because a tree of a hostile header would take many times its size. */
    private void readHeader(Path file, JsonParser parser, MemorySegment data) {
        if (parser.nextToken() != JsonToken.START_OBJECT) {
            throw new ModelException(file + ": the safetensors header is not valid JSON: it must be an object");
        }
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            String name = parser.currentName();
            JsonToken value = parser.nextToken();
            if (name.equals("__metadata__")) {
                parser.skipChildren();
                continue;
            }
            if (value != JsonToken.START_OBJECT) {
                throw new ModelException(file + ": the header's entry of tensor " + name + " is not an object");
            }
            if (tensors.put(name, tensor(file, name, entry(parser), data)) != null) {
                throw new ModelException(file + " holds tensor " + name + ", which another file of " + directory
                        + " holds too; the model is inconsistent");
            }
        }
        if (parser.nextToken() != null) {
            throw new ModelException(file + ": the safetensors header is not valid JSON: more follows the object");
        }
    }

    private record Entry(String dataType, long[] shape, long[] offsets) {}

    private static Entry entry(JsonParser parser) {
        String dataType = "";
        long[] shape = {};
        long[] offsets = {};
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            String name = parser.currentName();
            JsonToken value = parser.nextToken();
            switch (name) {
                case "dtype" -> {
                    dataType = value == JsonToken.VALUE_STRING ? parser.getString() : "";
                    parser.skipChildren();
                }
                case "shape" -> shape = numbers(parser);
                case "data_offsets" -> offsets = numbers(parser);
                default -> parser.skipChildren();
            }
        }
        return new Entry(dataType, shape, offsets);
    }

    /** Reads a list of numbers; a value that is not a long becomes -1, and at most {@code MAX_NUMBERS} are kept. */
    private static long[] numbers(JsonParser parser) {
        long[] numbers = new long[MAX_NUMBERS];
        int count = 0;
        if (parser.currentToken() != JsonToken.START_ARRAY) {
            parser.skipChildren();
            return new long[0];
        }
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            boolean isLong = parser.currentToken() == JsonToken.VALUE_NUMBER_INT
                    && parser.getNumberType() != JsonParser.NumberType.BIG_INTEGER;
            long number = isLong ? parser.getLongValue() : -1;
            parser.skipChildren();
            if (count < MAX_NUMBERS) {
                numbers[count++] = number;
            }
        }
        return Arrays.copyOf(numbers, count);
    }

    private static Tensor tensor(Path file, String name, Entry entry, MemorySegment data) {
        ElementType type = switch (entry.dataType()) {
            case "F32" -> ElementType.F32;
            case "F16" -> ElementType.F16;
            case "BF16" -> ElementType.BF16;
            default ->
                throw new ModelException(file + ": tensor " + name + " has data type '" + entry.dataType()
                        + "'; supported are F32, F16 and BF16");
        };
        long[] shape = entry.shape();
        if (shape.length < 1 || shape.length == MAX_NUMBERS) {
            throw new ModelException(file + ": tensor " + name + " has shape " + Arrays.toString(shape)
                    + "; tensors of one to four dimensions are supported");
        }
        long rows = rows(shape);
        long columns = shape[shape.length - 1];
        if (rows < 1 || columns < 1 || rows > Integer.MAX_VALUE || columns > Integer.MAX_VALUE) {
            throw new ModelException(file + ": tensor " + name + " has the impossible shape " + Arrays.toString(shape));
        }
        long from = entry.offsets().length == 2 ? entry.offsets()[0] : -1;
        long to = entry.offsets().length == 2 ? entry.offsets()[1] : -1;
        if (from < 0 || to < from || to > data.byteSize()) {
            throw new ModelException(file + " is truncated: tensor " + name + " lies at bytes [" + from + ", " + to
                    + ") of " + data.byteSize());
        }
        // 2^62 elements of 4 bytes would overflow
        if (rows * columns > Long.MAX_VALUE / Float.BYTES || to - from != type.bytes(rows * columns)) {
            throw new ModelException(file + ": tensor " + name + " has " + (to - from) + " bytes but its shape "
                    + Arrays.toString(shape) + " of " + type + " needs another number");
        }
        return Tensor.of(name, type, (int) rows, (int) columns, data.asSlice(from, to - from));
    }

    /** The product of all dimensions but the last: stacked matrices are one tall matrix. 0 if that is impossible. */
    private static long rows(long[] shape) {
        long rows = 1;
        for (int i = 0; i < shape.length - 1; i++) {
            if (shape[i] < 1 || shape[i] > Integer.MAX_VALUE || rows > Integer.MAX_VALUE) {
                return 0;
            }
            rows *= shape[i];
        }
        return rows;
    }

    @Override
    public Set<String> names() {
        return Set.copyOf(tensors.keySet());
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
