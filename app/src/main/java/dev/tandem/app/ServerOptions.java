package dev.tandem.app;

import dev.tandem.app.config.Secret;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.server.kvevents.KvEventsConfig;
import dev.tandem.server.openai.CacheSaltFrom;
import dev.tandem.text.answer.ToolCallFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/** Options for the server's address, its API keys and its logs. */
@Section(Section.Heading.SERVER)
final class ServerOptions {
    private static final int MAX_PORT = 65_535;

    @Option(
            names = "--host",
            paramLabel = "ADDRESS",
            defaultValue = "127.0.0.1",
            description = "Address to listen on. Default: ${DEFAULT-VALUE}.")
    String host = "127.0.0.1";

    @Option(
            names = "--port",
            paramLabel = "PORT",
            defaultValue = "8000",
            description = "Port to listen on; 0 takes a free one. Default: ${DEFAULT-VALUE}.")
    int port = 8000;

    @Option(
            names = "--api-key",
            paramLabel = "KEY",
            converter = Secret.Converter.class,
            description =
                    "Key that clients must send, except to /health, /ping and /metrics. The page at / asks for it."
                            + " Default: the variable TANDEM_API_KEY; without it no key is needed.")
    Optional<Secret> apiKey = Optional.empty();

    @Option(
            names = "--api-key-file",
            paramLabel = "FILE",
            description = "Text file of further keys that clients may send, one per line; empty lines and lines that"
                    + " start with # are skipped. Default: none.")
    Optional<Path> apiKeyFile = Optional.empty();

    @Option(
            names = "--cache-salt-from",
            paramLabel = "SOURCE",
            converter = CacheSaltConverter.class,
            defaultValue = "none",
            description = "What separates clients in the prefix cache: none, or api-key, with which clients that send"
                    + " different keys share no KV. A request's cache_salt separates further."
                    + " Default: ${DEFAULT-VALUE}.")
    CacheSaltFrom cacheSaltFrom = CacheSaltFrom.NONE;

    @Option(
            names = "--kv-events-config",
            paramLabel = "JSON",
            description = "Publish over ZeroMQ which prefixes enter and leave the cache, as vLLM does, for routers that"
                    + " send a request to where its prefix is. Fields and defaults are vLLM's, for example"
                    + " '{\"enable_kv_cache_events\": true, \"topic\": \"kv-events\"}'. Default: off.")
    Optional<String> kvEventsConfig = Optional.empty();

    @Option(
            names = "--served-model-name",
            paramLabel = "NAME",
            description = "Name of the model in requests and answers. Default: the model's own name.")
    Optional<String> servedModelName = Optional.empty();

    @Option(
            names = "--tool-call-parser",
            paramLabel = "FORMAT",
            description = "How the model writes tool calls: hermes, llama3_json, mistral, gemma or harmony."
                    + " Default: what its chat template shows.")
    Optional<ToolCallFormat> toolCallParser = Optional.empty();

    @Option(
            names = "--ui",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description =
                    "Serve the web page at /, with a chat and a live view of the engine. Default: ${DEFAULT-VALUE}.")
    boolean ui = true;

    @Option(
            names = "--log-level",
            paramLabel = "LEVEL",
            defaultValue = "info",
            description = "Least severe log lines to write: debug, info, warning or error. debug also lists libraries,"
                    + " kernels and memory at the start. Default: ${DEFAULT-VALUE}.")
    LogLevel logLevel = LogLevel.INFO;

    @Option(
            names = "--log-requests",
            fallbackValue = "true",
            description = "Write one line per request at its end, whatever --log-level says: method, path, status,"
                    + " duration, tokens, client and request id; never the prompt. Default: off.")
    boolean logRequests;

    @Option(
            names = "--shutdown-timeout",
            paramLabel = "SECONDS",
            defaultValue = "30",
            description = "Seconds that running requests get to finish after SIGTERM. Default: ${DEFAULT-VALUE}.")
    int shutdownTimeout = 30;

    /** @throws ConfigurationException that names the option, its value and the remedy */
    void check() {
        if (port < 0 || port > MAX_PORT) {
            throw new ConfigurationException(
                    "--port " + port + " must lie in [0, " + MAX_PORT + "]; 0 takes a free one");
        }
        if (shutdownTimeout < 0) {
            throw new ConfigurationException("--shutdown-timeout " + shutdownTimeout + " must be 0 or more seconds");
        }
    }

    /**
     * Where KV events are published; empty when they are not.
     *
     * @throws ConfigurationException when the option's value cannot be used, or there is no cache to speak of
     */
    Optional<KvEventsConfig> kvEvents(MemoryOptions memory) {
        Optional<KvEventsConfig> config = kvEventsConfig.flatMap(KvEventsConfig::parse);
        if (config.isPresent() && !memory.prefixCaching.orElse(true)) {
            throw new ConfigurationException("--kv-events-config publishes what the prefix cache holds, and"
                    + " --no-enable-prefix-caching turns it off; leave one of the two out");
        }
        return config;
    }

    /**
     * The keys of which clients must send one; empty when they need none.
     *
     * @throws ConfigurationException when the file of keys cannot be read or has no valid key
     */
    List<String> keys() {
        List<String> keys = new ArrayList<>();
        apiKey.map(Secret::value).filter(key -> !key.isBlank()).ifPresent(keys::add);
        apiKeyFile.ifPresent(file -> keys.addAll(read(file)));
        return keys;
    }

    /** Whether --api-key has the value of the variable TANDEM_API_KEY. */
    boolean hasKeyOfEnvironment() {
        return apiKey.isPresent() && apiKey.get().value().equals(System.getenv("TANDEM_API_KEY"));
    }

    /** Errors name the line and never show a key. */
    private static List<String> read(Path file) {
        List<String> lines;
        try {
            lines = Files.readAllLines(file);
        } catch (IOException e) {
            throw new ConfigurationException("--api-key-file " + file + " cannot be read as UTF-8 text ("
                    + e.getClass().getSimpleName() + "); name a file of keys, one per line");
        }
        List<String> keys = new ArrayList<>();
        for (int i = 0; i < lines.size(); i++) {
            String key = lines.get(i).strip();
            if (key.isEmpty() || key.startsWith("#")) {
                continue;
            }
            if (!key.chars().allMatch(c -> c > ' ' && c < 127)) {
                throw new ConfigurationException("line " + (i + 1) + " of --api-key-file " + file
                        + " is no key: a key has printable ASCII characters only, and no spaces");
            }
            keys.add(key);
        }
        if (keys.isEmpty()) {
            throw new ConfigurationException(
                    "--api-key-file " + file + " has no key; write one per line, or leave the option out");
        }
        return keys;
    }

    /** Reads the spelling of the help; Java's names have no hyphens. */
    static final class CacheSaltConverter implements ITypeConverter<CacheSaltFrom> {
        @Override
        public CacheSaltFrom convert(String value) {
            return switch (value.toLowerCase(Locale.ROOT)) {
                case "none" -> CacheSaltFrom.NONE;
                case "api-key" -> CacheSaltFrom.API_KEY;
                default -> throw new TypeConversionException("use none or api-key");
            };
        }
    }
}
