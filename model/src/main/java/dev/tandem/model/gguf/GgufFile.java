package dev.tandem.model.gguf;

import dev.tandem.model.ModelException;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.MappedFile;
import dev.tandem.model.weights.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/** A parsed GGUF v3 file: metadata by key and tensors by the names in the file. It is memory-mapped until closed. */
public final class GgufFile implements AutoCloseable {
    private static final String SPLIT_COUNT = "split.count";
    private static final int MAGIC = 0x46554747;
    private static final int VERSION = 3;
    private static final int DEFAULT_ALIGNMENT = 32;
    /** The size of a huge page; known files use 32. */
    private static final long MAX_ALIGNMENT = 2 << 20;

    private static final Map<Integer, ElementType> TYPES = Map.ofEntries(
            Map.entry(0, ElementType.F32),
            Map.entry(1, ElementType.F16),
            Map.entry(2, ElementType.Q4_0),
            Map.entry(3, ElementType.Q4_1),
            Map.entry(6, ElementType.Q5_0),
            Map.entry(7, ElementType.Q5_1),
            Map.entry(8, ElementType.Q8_0),
            Map.entry(12, ElementType.Q4_K),
            Map.entry(13, ElementType.Q5_K),
            Map.entry(14, ElementType.Q6_K),
            Map.entry(30, ElementType.BF16));

    private final Path path;
    private final Arena arena;
    private final Map<String, Object> metadata;
    private final Map<String, Tensor> tensors;

    private GgufFile(Path path, Arena arena, Map<String, Object> metadata, Map<String, Tensor> tensors) {
        this.path = path;
        this.arena = arena;
        this.metadata = metadata;
        this.tensors = tensors;
    }

    /** The element types of the matrices. Vectors do not count: they are small and always kept as fp32. */
    public Set<ElementType> matrixTypes() {
        Set<ElementType> types = EnumSet.noneOf(ElementType.class);
        tensors.values().stream().filter(tensor -> tensor.rows() > 1).forEach(tensor -> types.add(tensor.type()));
        return types;
    }

    /** Maps and parses the file; if it is the first part of a split model, the other parts beside it as well. */
    @SuppressWarnings("MustBeClosedChecker") // the file owns the arena and closes it
    public static GgufFile open(Path path) {
        Arena arena = Arena.ofShared();
        try {
            GgufFile file = parse(path, arena);
            file.addParts(arena);
            return file;
        } catch (RuntimeException e) {
            arena.close();
            throw e;
        }
    }

    private void addParts(Arena arena) {
        int parts = smallInteger(SPLIT_COUNT, 1);
        if (parts <= 1) {
            return;
        }
        String name = path.getFileName().toString();
        String first = String.format(Locale.ROOT, "-%05d-of-%05d.gguf", 1, parts);
        if (smallInteger("split.no", 0) != 0 || !name.endsWith(first)) {
            throw new ModelException(path + " is part " + (integer("split.no", 0) + 1) + " of " + parts
                    + " of a split model; give its first part, whose name ends in " + first);
        }
        String stem = name.substring(0, name.length() - first.length());
        for (int part = 1; part < parts; part++) {
            Path other = path.resolveSibling(String.format(Locale.ROOT, "%s-%05d-of-%05d.gguf", stem, part + 1, parts));
            if (!Files.exists(other)) {
                throw new ModelException(path + " is the first of " + parts + " parts, and " + other
                        + " is missing; put all parts into one directory");
            }
            GgufFile parsed = parse(other, arena);
            if (parsed.smallInteger(SPLIT_COUNT, 1) != parts || parsed.smallInteger("split.no", 0) != part) {
                throw new ModelException(other + " is part " + (parsed.integer("split.no", 0) + 1) + " of "
                        + parsed.integer(SPLIT_COUNT, 1) + "; it must be part " + (part + 1) + " of " + parts);
            }
            parsed.tensors.forEach((tensor, data) -> {
                if (tensors.put(tensor, data) != null) {
                    throw new ModelException(other + " has the tensor " + tensor + ", which another part has too");
                }
            });
        }
        int expected = smallInteger("split.tensors.count", tensors.size());
        if (tensors.size() != expected) {
            throw new ModelException(
                    path + " and its parts have " + tensors.size() + " tensors; split.tensors.count is " + expected);
        }
    }

    private static GgufFile parse(Path path, Arena arena) {
        MemorySegment bytes = MappedFile.map(path, arena);
        GgufReader reader = new GgufReader(path, bytes);
        int magic = reader.i32();
        if (magic != MAGIC) {
            throw new ModelException(path + " is not a GGUF file: it begins with 0x" + Integer.toHexString(magic));
        }
        int version = reader.i32();
        if (version != VERSION) {
            throw new ModelException(path + " is GGUF version " + version + "; version " + VERSION + " is supported");
        }
        int tensorCount = reader.count("tensors", 24);
        int metadataCount = reader.count("metadata entries", 13);
        Map<String, Object> metadata = new LinkedHashMap<>();
        for (int i = 0; i < metadataCount; i++) {
            String key = reader.string();
            if (metadata.put(key, reader.value(reader.i32())) != null) {
                throw new ModelException(path + " is corrupt: it has the metadata entry " + key + " twice");
            }
        }
        return new GgufFile(
                path, arena, metadata, tensors(path, reader, bytes, tensorCount, alignment(path, metadata)));
    }

    private static long alignment(Path path, Map<String, Object> metadata) {
        Object value = metadata.getOrDefault("general.alignment", (long) DEFAULT_ALIGNMENT);
        if (!(value instanceof Long alignment)
                || alignment < 1
                || alignment > MAX_ALIGNMENT
                || Long.bitCount(alignment) != 1) {
            throw new ModelException(
                    path + ": general.alignment is " + value + "; it must be a power of two, at most " + MAX_ALIGNMENT);
        }
        return alignment;
    }

    private static Map<String, Tensor> tensors(
            Path path, GgufReader reader, MemorySegment bytes, int count, long alignment) {
        record Entry(String name, ElementType type, long columns, long rows, long offset) {}
        Entry[] entries = new Entry[count];
        for (int i = 0; i < count; i++) {
            String name = reader.string();
            int dimensions = reader.i32();
            if (dimensions < 1 || dimensions > 3) {
                throw new ModelException(path + ": tensor " + name + " has " + dimensions + " dimensions, not 1 to 3");
            }
            long columns = reader.i64();
            long rows = dimensions >= 2 ? reader.i64() : 1;
            long matrices = dimensions == 3 ? reader.i64() : 1; // stacked matrices are one tall matrix
            if (dimensions == 3) {
                boolean sane = rows > 0 && rows <= Integer.MAX_VALUE && matrices > 0 && matrices <= Integer.MAX_VALUE;
                rows = sane ? rows * matrices : 0; // 0 is refused below
            }
            int type = reader.i32();
            if (!TYPES.containsKey(type)) {
                throw new ModelException(
                        path + ": tensor " + name + " has GGML type " + type + "; supported are " + TYPES.values());
            }
            entries[i] = new Entry(name, TYPES.get(type), columns, rows, reader.i64());
        }
        long data = (reader.position() + alignment - 1) / alignment * alignment;
        Map<String, Tensor> tensors = new HashMap<>();
        for (Entry entry : entries) {
            ElementType type = entry.type();
            boolean sane = entry.columns() > 0
                    && entry.rows() > 0
                    && entry.columns() <= Integer.MAX_VALUE
                    && entry.rows() <= Integer.MAX_VALUE
                    && entry.columns() % type.blockElements() == 0
                    && type.bytes(entry.columns()) <= bytes.byteSize() / entry.rows();
            if (!sane) {
                throw new ModelException(
                        path + ": tensor " + entry.name() + " has the impossible shape [" + entry.rows() + ", "
                                + entry.columns() + "] for " + type + " in a file of " + bytes.byteSize() + " bytes");
            }
            long size = Math.multiplyExact(type.bytes(entry.columns()), entry.rows());
            if (entry.offset() % alignment != 0) {
                throw new ModelException(path + " is corrupt: tensor " + entry.name() + " lies at offset "
                        + entry.offset() + ", which is not a multiple of the alignment, " + alignment);
            }
            if (entry.offset() < 0 || data > bytes.byteSize() || entry.offset() > bytes.byteSize() - data - size) {
                throw new ModelException(path + " is truncated: tensor " + entry.name() + " of " + size
                        + " bytes lies at offset " + (data + entry.offset()) + " of " + bytes.byteSize());
            }
            MemorySegment slice = bytes.asSlice(data + entry.offset(), size);
            Tensor tensor = Tensor.of(entry.name(), type, (int) entry.rows(), (int) entry.columns(), slice);
            if (tensors.put(entry.name(), tensor) != null) {
                throw new ModelException(path + " is corrupt: it has the tensor " + entry.name() + " twice");
            }
        }
        return tensors;
    }

    public Path path() {
        return path;
    }

    Map<String, Tensor> tensors() {
        return tensors;
    }

    public boolean has(String key) {
        return metadata.containsKey(key);
    }

    public String string(String key, String defaultValue) {
        return value(key, String.class, defaultValue);
    }

    public long integer(String key, long defaultValue) {
        return value(key, Long.class, defaultValue);
    }

    /** An integer that must fit an int: a size, or a token id. */
    public int smallInteger(String key, int defaultValue) {
        long value = integer(key, defaultValue);
        if (value != (int) value) {
            throw new ModelException(path + ": the metadata entry " + key + " is " + value + "; it must be at most "
                    + Integer.MAX_VALUE);
        }
        return (int) value;
    }

    /** A number; integers are converted. */
    public double real(String key, double defaultValue) {
        return value(key, Number.class, defaultValue).doubleValue();
    }

    public boolean flag(String key, boolean defaultValue) {
        return value(key, Boolean.class, defaultValue);
    }

    boolean isArray(String key) {
        return metadata.get(key) instanceof Object[];
    }

    /** The elements of an array; empty when the entry is absent. */
    public Object[] array(String key) {
        return value(key, Object[].class, new Object[0]);
    }

    private <T> T value(String key, Class<T> type, T defaultValue) {
        Object value = metadata.get(key);
        if (value == null) {
            return defaultValue;
        }
        if (!type.isInstance(value)) {
            throw new ModelException(path + ": the metadata entry " + key + " is of type "
                    + value.getClass().getSimpleName() + "; it must be of type " + type.getSimpleName());
        }
        return type.cast(value);
    }

    @Override
    public void close() {
        arena.close();
    }
}
