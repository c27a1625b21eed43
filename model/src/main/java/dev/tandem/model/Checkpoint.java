package dev.tandem.model;

import dev.tandem.model.config.GenerationDefaults;
import dev.tandem.model.config.HuggingFaceConfig;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.gguf.GgufConfig;
import dev.tandem.model.gguf.GgufFile;
import dev.tandem.model.gguf.GgufVocabulary;
import dev.tandem.model.gguf.GgufWeights;
import dev.tandem.model.weights.DummyWeights;
import dev.tandem.model.weights.NameTable;
import dev.tandem.model.weights.NamedWeights;
import dev.tandem.model.weights.SafetensorsWeights;
import dev.tandem.model.weights.StoredTensors;
import dev.tandem.model.weights.TextTensors;
import dev.tandem.model.weights.WatchedWeights;
import dev.tandem.model.weights.Weights;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** A model on disk: configuration, weights, tokenizer and sampling defaults. Closing it unmaps the weights. */
public record Checkpoint(
        String name, ModelSpec spec, Weights weights, GenerationDefaults defaults, TokenizerSource tokenizer)
        implements AutoCloseable {

    /** The sizes of the model. */
    public ModelConfig config() {
        return spec.config();
    }

    /** The source of the tokenizer. */
    public sealed interface TokenizerSource {
        /** A directory with {@code tokenizer.json}, {@code tokenizer_config.json} and the chat template. */
        record Directory(Path path) implements TokenizerSource {}

        record Gguf(GgufVocabulary vocabulary) implements TokenizerSource {}
    }

    /** The source of the weights. */
    public enum LoadFormat {
        /** The model's own files. */
        AUTO,
        /** Seeded random weights with the shapes of the configuration. */
        DUMMY
    }

    /**
     * Opens a {@code .gguf} file or a Hugging Face directory, for the context that the model has by default.
     *
     * @throws ModelException when something is missing or wrong; the message names it
     */
    public static Checkpoint open(Path path, LoadFormat format, long seed) {
        return open(path, format, seed, Optional.empty());
    }

    /**
     * Opens a {@code .gguf} file or a Hugging Face directory.
     *
     * @param maxModelLen max tokens of a sequence, where the user asks for them; models with LongRoPE rotate by it
     * @throws ModelException when something is missing or wrong; the message names it
     */
    public static Checkpoint open(Path path, LoadFormat format, long seed, Optional<Integer> maxModelLen) {
        if (Files.isDirectory(path)) {
            ModelSpec spec = HuggingFaceConfig.read(path, maxModelLen);
            Weights weights = format == LoadFormat.DUMMY ? new DummyWeights(spec, seed) : safetensors(path, spec);
            return new Checkpoint(
                    name(path),
                    spec,
                    weights,
                    HuggingFaceConfig.readGenerationDefaults(path),
                    new TokenizerSource.Directory(path));
        }
        if (!Files.exists(path)) {
            throw new ModelException(
                    "model " + path + " does not exist; give a .gguf file or a directory with config.json");
        }
        return openGguf(path, format, seed, maxModelLen);
    }

    private static Checkpoint openGguf(Path path, LoadFormat format, long seed, Optional<Integer> maxModelLen) {
        GgufFile file = GgufFile.open(path);
        try {
            ModelSpec spec = GgufConfig.read(file, maxModelLen);
            GgufVocabulary vocabulary = GgufVocabulary.read(file);
            Weights weights = named(new GgufWeights(file), NameTable.gguf(spec.family()), spec);
            if (format == LoadFormat.DUMMY) {
                weights.close();
                weights = new DummyWeights(spec, seed);
            }
            return new Checkpoint(
                    name(path), spec, weights, GenerationDefaults.NONE, new TokenizerSource.Gguf(vocabulary));
        } catch (RuntimeException e) {
            file.close();
            throw e;
        }
    }

    /** Names the tensors, and checks that they are what the model needs. */
    private static Weights named(StoredTensors stored, NameTable table, ModelSpec spec) {
        NamedWeights weights = new NamedWeights(stored, table, spec);
        weights.check();
        return weights;
    }

    private static Weights safetensors(Path path, ModelSpec spec) {
        SafetensorsWeights files = SafetensorsWeights.open(path);
        StoredTensors stored = HuggingFaceConfig.takesImages(path) ? new TextTensors(files) : files;
        try {
            return named(stored, NameTable.huggingFace(spec.family()), spec);
        } catch (RuntimeException e) {
            stored.close();
            throw e;
        }
    }

    private static String name(Path path) {
        String last = path.toAbsolutePath().normalize().getFileName().toString();
        return last.endsWith(".gguf") ? last.substring(0, last.length() - ".gguf".length()) : last;
    }

    /** The same model under another name. */
    public Checkpoint named(String other) {
        return new Checkpoint(other, spec, weights, defaults, tokenizer);
    }

    /** The same model, which tells how much of the files' weights was read. Random weights tell nothing. */
    public Checkpoint watched(WatchedWeights.Reading reading) {
        return weights instanceof NamedWeights named
                ? new Checkpoint(name, spec, new WatchedWeights(named, spec, reading), defaults, tokenizer)
                : this;
    }

    @Override
    public void close() {
        weights.close();
    }
}
