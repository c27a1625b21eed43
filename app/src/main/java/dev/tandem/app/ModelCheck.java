package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.fetch.WheelModel;
import dev.tandem.fetch.hub.Hub;
import dev.tandem.fetch.hub.HubFile;
import dev.tandem.fetch.hub.HubListing;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.ModelException;
import dev.tandem.model.config.Family;
import dev.tandem.text.TokenizerException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Checks that Tandem can serve a model before its weights are downloaded. */
final class ModelCheck {
    private static final int FIRST_READ = 1 << 20;
    /** The largest known vocabularies take 20 MiB. */
    private static final int MAX_READ = 64 << 20;

    private ModelCheck() {}

    /**
     * Checks a directory with the files of a model but for its weights.
     *
     * @throws ConfigurationException when the model cannot be served
     */
    static void directory(String model, Path directory) {
        quantization(model, directory.resolve("config.json"));
        open(model, directory, directory + "/");
    }

    /** Quantised safetensors would fail at the first tensor, after the download. */
    private static void quantization(String model, Path config) {
        try {
            JsonNode quantization =
                    new ObjectMapper().readTree(Files.readAllBytes(config)).path("quantization_config");
            if (quantization.isObject()) {
                throw new ConfigurationException(model + " cannot be served: its weights are quantised ("
                        + quantization.path("quant_method").asString("unknown")
                        + "), and safetensors are supported in float32, float16 and bfloat16; choose a repository"
                        + " without quantization_config, or one with GGUF files");
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (JacksonException e) {
            return; // opening the model says what is wrong
        }
    }

    private static void open(String model, Path path, String folder) {
        try (Checkpoint checkpoint = Checkpoint.open(path, Checkpoint.LoadFormat.DUMMY, 0)) {
            EngineAssembly.tokenizer(checkpoint, true).orElseThrow().close();
        } catch (ModelException | TokenizerException e) {
            throw new ConfigurationException(
                    model + " cannot be served, and its weights were not downloaded: "
                            + String.valueOf(e.getMessage()).replace(folder, ""),
                    e);
        }
    }

    /**
     * Checks a GGUF file on the hub by its metadata, of which a range is read.
     *
     * @param parts the file or all its parts, the first one first
     * @throws ConfigurationException when the model cannot be served
     */
    static void gguf(Hub hub, HubListing listing, List<HubFile> parts) {
        try {
            Path folder = Files.createTempDirectory("tandem-model");
            try {
                for (HubFile part : parts) {
                    writeHead(hub, listing, part, folder.resolve(part.name()));
                }
                open(listing.model().toString(), folder.resolve(parts.getFirst().name()), folder + "/");
            } finally {
                for (HubFile part : parts) {
                    Files.deleteIfExists(folder.resolve(part.name()));
                }
                Files.delete(folder);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Writes a file of the full length that has the metadata and takes no more space than they do. */
    private static void writeHead(Hub hub, HubListing listing, HubFile file, Path target) throws IOException {
        byte[] beginning = new byte[0];
        Optional<GgufHead> head = Optional.empty();
        long limit = Math.min(file.size(), MAX_READ);
        for (long bytes = FIRST_READ; head.isEmpty() && beginning.length < limit; bytes *= 4) {
            int more = (int) (Math.min(bytes, limit) - beginning.length);
            byte[] next = hub.read(listing, file, beginning.length, more);
            byte[] both = java.util.Arrays.copyOf(beginning, beginning.length + more);
            System.arraycopy(next, 0, both, beginning.length, more);
            beginning = both;
            head = GgufHead.measure(beginning);
        }
        try (RandomAccessFile out = new RandomAccessFile(target.toFile(), "rw")) {
            out.setLength(file.size());
            out.write(beginning);
            Optional<GgufHead.Range> rope = head.flatMap(GgufHead::ropeFrequencies);
            if (rope.isPresent() && rope.get().from() + rope.get().bytes() <= file.size()) {
                out.seek(rope.get().from());
                out.write(hub.read(listing, file, rope.get().from(), rope.get().bytes()));
            }
        }
    }

    /** Checks a model in wheels by the architecture in their list. */
    static void wheels(String name, WheelModel model) {
        if (!Family.architectures().contains(model.architecture())) {
            throw new ConfigurationException(name
                    + " cannot be served yet, and nothing was downloaded: GGUF architecture '"
                    + model.architecture() + "' is not supported; supported are "
                    + String.join(", ", Family.architectures())
                    + ". tandem pull --no-check " + name + " downloads it nevertheless");
        }
    }
}
