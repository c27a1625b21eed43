package dev.tandem.cpu;

import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** The small models that tools/make_goldens.py makes, with the answers of transformers. */
final class TestModels {
    /** Families that have GGUF files, too. */
    static final List<String> GGUF = List.of(
            "qwen25",
            "qwen3small",
            "phi3",
            "phi4mini",
            "phi4long",
            "olmo2",
            "smollm3",
            "mistralwindow",
            "olmo3",
            "gemma3");

    static final List<String> FAMILIES = Stream.concat(
                    Stream.of("llama2", "llama31", "llama32", "mistral", "qwen2", "qwen3", "gemma3vision", "olmo3wide"),
                    GGUF.stream())
            .toList();

    private TestModels() {}

    static Path directory(String family) {
        return Path.of("src/test/resources/families", family);
    }

    static Checkpoint open(String family) {
        return Checkpoint.open(directory(family), LoadFormat.AUTO, 0, maxModelLen(family));
    }

    static Checkpoint openGguf(String family) {
        return Checkpoint.open(directory(family).resolve("model.gguf"), LoadFormat.AUTO, 0, maxModelLen(family));
    }

    /** The long factors of LongRoPE serve contexts beyond the original one of 32 tokens. */
    private static Optional<Integer> maxModelLen(String family) {
        return family.equals("phi4long") ? Optional.of(256) : Optional.empty();
    }

    static CpuExecutor executor(String family, DataType type, int gpuBlocks, int hostBlocks, int threads) {
        return new CpuExecutor(
                open(family),
                new CpuOptions(
                        threads, threads, false, type, ActivationPrecision.EXACT, type, gpuBlocks, hostBlocks, 256));
    }

    /** A model of five layers with seeded weights, so that in-flight tokens wait between layers. */
    static CpuExecutor deep(DataType type, int gpuBlocks, int hostBlocks, Readiness readiness) {
        return deep("deep", type, gpuBlocks, hostBlocks, readiness);
    }

    /** The same with a sliding window of 20 tokens in every layer. */
    static CpuExecutor deepWithWindow(DataType type, int gpuBlocks, int hostBlocks, Readiness readiness) {
        return deep("deepwindow", type, gpuBlocks, hostBlocks, readiness);
    }

    /**
     * Eight layers: two without a window and six with one of 20 tokens, so a group of the former, three of the latter.
     */
    static CpuExecutor deepWithGroups(DataType type, int gpuBlocks, int hostBlocks, Readiness readiness) {
        return deep("deepgroups", type, gpuBlocks, hostBlocks, readiness);
    }

    private static CpuExecutor deep(
            String directory, DataType type, int gpuBlocks, int hostBlocks, Readiness readiness) {
        Checkpoint checkpoint = Checkpoint.open(directory(directory), LoadFormat.DUMMY, 9);
        return new CpuExecutor(
                checkpoint,
                new CpuOptions(2, 1, false, type, ActivationPrecision.EXACT, type, gpuBlocks, hostBlocks, 256),
                readiness);
    }

    /** The answer of transformers: prompt, greedy continuation, and the logits of every prompt position. */
    record Golden(int[] prompt, int[] greedy, float[] logits) {
        static Golden of(Path directory) {
            try {
                JsonNode json = new ObjectMapper().readTree(Files.readAllBytes(directory.resolve("golden.json")));
                return new Golden(
                        ints(json.get("prompt")), ints(json.get("greedy")), floats(directory.resolve("logits.bin")));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private static int[] ints(JsonNode list) {
            int[] values = new int[list.size()];
            for (int i = 0; i < values.length; i++) {
                values[i] = list.get(i).asInt();
            }
            return values;
        }

        private static float[] floats(Path file) throws IOException {
            try (FileChannel channel = FileChannel.open(file);
                    Arena arena = Arena.ofConfined()) {
                MemorySegment bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
                return bytes.toArray(ValueLayout.JAVA_FLOAT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN));
            }
        }
    }

    /** ‖actual − expected‖ / ‖expected‖ over {@code count} values; NaN anywhere gives NaN. */
    static double relativeError(float[] actual, int ao, float[] expected, int eo, int count) {
        double difference = 0;
        double norm = 0;
        for (int i = 0; i < count; i++) {
            double d = (double) actual[ao + i] - expected[eo + i];
            difference += d * d;
            norm += (double) expected[eo + i] * expected[eo + i];
        }
        return Math.sqrt(difference / norm);
    }
}
