package dev.tandem.library;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * How a model is loaded. Each option is one of {@code tandem serve}, which errors name; an empty one has its default.
 *
 * @param model a {@code .gguf} file, a Hugging Face directory, {@code ORG/NAME[@REVISION][:TAG]} on the hub, or a short
 *     name; empty for the default model, which is fetched once
 * @param device where the model runs: {@code --device}
 * @param contextTokens max tokens of one request, prompt and answer together: {@code --max-model-len}
 * @param kvBytes memory for KV beside the computing: {@code --kv-cache-memory}
 * @param hostKvBytes memory of the host's KV pool: {@code --host-kv}
 * @param threads compute threads of the CPU: {@code --threads}
 * @param further options of {@code tandem serve} as on the command line, such as {@code --max-num-seqs}, {@code 8};
 *     those of the server itself are refused
 */
public record LoadOptions(
        Optional<String> model,
        Device device,
        OptionalInt contextTokens,
        OptionalLong kvBytes,
        OptionalLong hostKvBytes,
        OptionalInt threads,
        List<String> further) {
    private static final LoadOptions DEFAULTS = new LoadOptions(
            Optional.empty(),
            Device.AUTO,
            OptionalInt.empty(),
            OptionalLong.empty(),
            OptionalLong.empty(),
            OptionalInt.empty(),
            List.of());

    /** Copies the list. */
    public LoadOptions {
        further = List.copyOf(further);
    }

    /** The default model with all defaults. */
    public static LoadOptions defaults() {
        return DEFAULTS;
    }

    /** A model with all defaults. */
    public static LoadOptions of(String model) {
        return new LoadOptions(
                Optional.of(model),
                Device.AUTO,
                OptionalInt.empty(),
                OptionalLong.empty(),
                OptionalLong.empty(),
                OptionalInt.empty(),
                List.of());
    }

    /** The same with another {@link #device}. */
    public LoadOptions withDevice(Device value) {
        return new LoadOptions(model, value, contextTokens, kvBytes, hostKvBytes, threads, further);
    }

    /** The same with another {@link #contextTokens}. */
    public LoadOptions withContextTokens(int value) {
        return new LoadOptions(model, device, OptionalInt.of(value), kvBytes, hostKvBytes, threads, further);
    }

    /** The same with another {@link #kvBytes}. */
    public LoadOptions withKvBytes(long value) {
        return new LoadOptions(model, device, contextTokens, OptionalLong.of(value), hostKvBytes, threads, further);
    }

    /** The same with another {@link #hostKvBytes}. */
    public LoadOptions withHostKvBytes(long value) {
        return new LoadOptions(model, device, contextTokens, kvBytes, OptionalLong.of(value), threads, further);
    }

    /** The same with another {@link #threads}. */
    public LoadOptions withThreads(int value) {
        return new LoadOptions(model, device, contextTokens, kvBytes, hostKvBytes, OptionalInt.of(value), further);
    }

    /** The same with other {@link #further} options. */
    public LoadOptions withFurther(String... values) {
        return new LoadOptions(model, device, contextTokens, kvBytes, hostKvBytes, threads, List.of(values));
    }

    /** The options as {@code tandem serve} takes them. */
    List<String> arguments() {
        List<String> arguments = new ArrayList<>(List.of("--device", device.flag()));
        contextTokens.ifPresent(value -> arguments.addAll(List.of("--max-model-len", Integer.toString(value))));
        kvBytes.ifPresent(value -> arguments.addAll(List.of("--kv-cache-memory", Long.toString(value))));
        hostKvBytes.ifPresent(value -> arguments.addAll(List.of("--host-kv", Long.toString(value))));
        threads.ifPresent(value -> arguments.addAll(List.of("--threads", Integer.toString(value))));
        arguments.addAll(further);
        return arguments;
    }
}
