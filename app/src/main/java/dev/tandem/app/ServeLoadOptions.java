package dev.tandem.app;

import dev.tandem.bench.Workload;
import dev.tandem.bench.load.http.Conversations;
import dev.tandem.bench.load.http.OpenAiServer;
import dev.tandem.bench.load.http.Prompt;
import dev.tandem.bench.load.http.Prompts;
import dev.tandem.engine.config.ConfigurationException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.function.IntFunction;
import picocli.CommandLine.Option;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.ObjectMapper;

/** Options of {@code bench serve}: the server, and what it is asked; the names are those of vLLM's benchmark. */
@Section(Section.Heading.COMMAND)
final class ServeLoadOptions {
    /** The variable with the key, as OpenAI's clients name it; an option would stand in recorded commands. */
    private static final String KEY = "OPENAI_API_KEY";

    private static final String CHAT = "/chat/completions";
    /** A millisecond, and about eleven days. */
    private static final double MIN_TIMEOUT = 0.001;

    private static final double MAX_TIMEOUT = 1_000_000;

    /** The datasets of {@code --dataset-name}. */
    enum Dataset {
        RANDOM,
        SHAREGPT,
        CUSTOM
    }

    @Option(
            names = "--base-url",
            paramLabel = "URL",
            defaultValue = "http://127.0.0.1:8000",
            description = "Address of the server. The variable " + KEY + " has its key, if it wants one."
                    + " Default: ${DEFAULT-VALUE}.")
    String baseUrl = "";

    @Option(
            names = "--endpoint",
            paramLabel = "PATH",
            defaultValue = "/v1/completions",
            description = "/v1/completions or /v1/chat/completions. Default: ${DEFAULT-VALUE}.")
    String endpoint = "";

    @Option(
            names = "--model",
            paramLabel = "NAME",
            defaultValue = "",
            description = "Model that is asked for. Default: the first that the server lists.")
    String model = "";

    @Option(names = "--header", paramLabel = "NAME=VALUE", description = "A header of each request. Default: none.")
    Map<String, String> headers = new LinkedHashMap<>();

    @Option(
            names = "--extra-body",
            paramLabel = "JSON",
            defaultValue = "{}",
            description = "Fields that are added to each request, and replace its own. Default: none.")
    String extraBody = "{}";

    @Option(
            names = "--ignore-eos",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description = "Ask for answers of exactly the max length; a server that does not know ignore_eos may need"
                    + " --no-ignore-eos. Default: ${DEFAULT-VALUE}.")
    boolean ignoreEos = true;

    @Option(
            names = "--dataset-name",
            paramLabel = "NAME",
            defaultValue = "random",
            description = "random prompts; sharegpt, a JSON file of conversations; or custom, a file with an object per"
                    + " line that has prompt and output_tokens. Default: ${DEFAULT-VALUE}.")
    Dataset dataset = Dataset.RANDOM;

    @Option(names = "--dataset-path", paramLabel = "FILE", description = "File of the dataset. Default: none.")
    Optional<Path> datasetPath = Optional.empty();

    @Option(
            names = "--random-input-len",
            paramLabel = "TOKENS",
            defaultValue = "1024",
            description = "Prompt tokens of random requests. Default: ${DEFAULT-VALUE}.")
    int inputLength = 1024;

    @Option(
            names = "--random-output-len",
            paramLabel = "TOKENS",
            defaultValue = "128",
            description = "Output tokens of random requests. Default: ${DEFAULT-VALUE}.")
    int outputLength = 128;

    @Option(
            names = "--random-range-ratio",
            paramLabel = "FRACTION",
            defaultValue = "0",
            description = "Lengths of random requests are uniform within this fraction of their mean."
                    + " Default: ${DEFAULT-VALUE}.")
    double range;

    @Option(
            names = "--workload",
            paramLabel = "WORKLOAD",
            description = "Lengths of random requests from synthetic:IN/OUT, prefix:SHARED/OWN/OUT[/TURNS], osc,"
                    + " osc:MEAN_OUT, azure-code, azure-conv or reasoning, in place of --random-*. Default: none.")
    Optional<String> workload = Optional.empty();

    @Option(
            names = "--output-len",
            paramLabel = "TOKENS",
            defaultValue = "0",
            description =
                    "Output tokens of sharegpt and custom requests; 0 for the file's own, or 256 where it has none."
                            + " Default: ${DEFAULT-VALUE}.")
    int fileOutputLength;

    @Option(
            names = "--seed",
            paramLabel = "NUMBER",
            defaultValue = "0",
            description = "Seed of arrivals, lengths and prompts; each rate has random prompts of its own."
                    + " Default: ${DEFAULT-VALUE}.")
    long seed;

    @Option(
            names = "--num-prompts",
            paramLabel = "NUMBER",
            description = "Send this many requests and measure them all, in place of --duration."
                    + " Default: 1000 without a rate, else --duration.")
    Optional<Integer> requests = Optional.empty();

    @Option(
            names = "--warm-up",
            paramLabel = "SECONDS",
            defaultValue = "0",
            description = "Seconds of load before the measured window. Default: ${DEFAULT-VALUE}.")
    double warmUp;

    @Option(
            names = "--max-concurrency",
            paramLabel = "REQUESTS",
            defaultValue = "2147483647",
            description = "Max requests that run at a time. With a rate, waiting for a turn counts as latency."
                    + " Default: no limit.")
    int maxConcurrency = Integer.MAX_VALUE;

    @Option(
            names = "--request-timeout",
            paramLabel = "SECONDS",
            defaultValue = "600",
            description = "Max seconds from sending a request to the end of its answer; a request that takes longer is"
                    + " cancelled and counts as failed. Default: ${DEFAULT-VALUE}.")
    double requestTimeout = 600;

    @Option(
            names = "--ideal-output-tokens-per-second",
            paramLabel = "TOKENS",
            description = "Throughput of the best schedule for this server and these requests, as tandem ideal prints"
                    + " it; the result then has share_of_ideal. Default: none.")
    Optional<Double> idealTokensPerSecond = Optional.empty();

    /** @throws ConfigurationException that names the option, its value and the limit */
    void check() {
        double ideal = idealTokensPerSecond.orElse(1.0);
        if (!(ideal > 0 && ideal < Double.POSITIVE_INFINITY)) {
            throw new ConfigurationException("--ideal-output-tokens-per-second " + ideal
                    + " must be a number of tokens above 0, as tandem ideal prints it");
        }
        if (!(requestTimeout >= MIN_TIMEOUT && requestTimeout <= MAX_TIMEOUT)) {
            throw new ConfigurationException("--request-timeout " + requestTimeout + " must be a number of seconds, "
                    + MIN_TIMEOUT + " to " + (long) MAX_TIMEOUT);
        }
        if (maxConcurrency < 1) {
            throw new ConfigurationException("--max-concurrency " + maxConcurrency + " must be at least 1");
        }
        if (inputLength < 1 || outputLength < 1 || fileOutputLength < 0) {
            throw new ConfigurationException("--random-input-len " + inputLength + ", --random-output-len "
                    + outputLength + " and --output-len " + fileOutputLength
                    + ": they must be at least 1, --output-len at least 0");
        }
        if (!(range >= 0 && range < 1)) {
            throw new ConfigurationException("--random-range-ratio " + range + " must lie in [0, 1)");
        }
        if (dataset != Dataset.RANDOM && (datasetPath.isEmpty() || workload.isPresent())) {
            throw new ConfigurationException("--dataset-name " + dataset.name().toLowerCase(Locale.ROOT)
                    + " needs --dataset-path FILE, and has no --workload");
        }
        if (dataset == Dataset.RANDOM && datasetPath.isPresent()) {
            throw new ConfigurationException("--dataset-path " + datasetPath.get()
                    + " is not read with random prompts; add --dataset-name sharegpt or custom");
        }
        extraBody();
    }

    private Map<String, Object> extraBody() {
        try {
            Map<String, Object> fields = new LinkedHashMap<>();
            new ObjectMapper().readTree(extraBody).properties().forEach(e -> fields.put(e.getKey(), e.getValue()));
            return fields;
        } catch (JacksonException e) {
            throw new ConfigurationException("--extra-body " + extraBody + " is not a JSON object", e);
        }
    }

    OpenAiServer.Target target() {
        Map<String, String> all = new LinkedHashMap<>(headers);
        String key = System.getenv(KEY);
        if (key != null && !key.isEmpty()) {
            all.put("Authorization", "Bearer " + key);
        }
        Duration timeout = Duration.ofNanos((long) (requestTimeout * 1e9));
        return new OpenAiServer.Target(baseUrl, endpoint, all, model, ignoreEos, extraBody(), timeout);
    }

    /**
     * What the requests of a run ask: token ids for completions, words for chat and for conversations of several turns.
     * Runs count from 0. Their random prompts differ, as a server's prefix cache may hold those of the run before; the
     * lengths do not. The prompts of a file are the same in each run.
     */
    IntFunction<Conversations> conversations() {
        return switch (dataset) {
            case RANDOM ->
                run -> random(
                        new SplittableRandom(seed).longs().skip(run).findFirst().orElseThrow());
            case SHAREGPT -> ofFile(Prompts.shareGpt(datasetPath.orElseThrow(), fileOutputLength));
            case CUSTOM -> ofFile(Prompts.custom(datasetPath.orElseThrow(), fileOutputLength));
        };
    }

    private static IntFunction<Conversations> ofFile(IntFunction<Prompt> prompts) {
        Conversations conversations = Conversations.ofOneTurn(prompts);
        return run -> conversations;
    }

    /** @param content seed of the prompts' tokens or words */
    private Conversations random(long content) {
        Optional<Workload> work = workload.map(name -> Workload.parse(name, seed));
        int shared = work.map(Workload::sharedPrompt).orElse(0);
        int turns = work.map(Workload::turns).orElse(1);
        IntFunction<Prompts.Lengths> lengths = work.<IntFunction<Prompts.Lengths>>map(
                        of -> index -> lengths(of.request(index)))
                .orElse(this::around);
        if (turns > 1) {
            return Prompts.conversations(lengths.apply(0), shared, turns, content);
        }
        return Conversations.ofOneTurn(
                endpoint.endsWith(CHAT)
                        ? Prompts.words(lengths, shared, content)
                        : Prompts.tokens(lengths, shared, content));
    }

    private static Prompts.Lengths lengths(Workload.Lengths lengths) {
        return new Prompts.Lengths(lengths.prompt(), lengths.output());
    }

    private Prompts.Lengths around(int index) {
        // without the split, request i would draw on the numbers of interval i and of the requests beside it
        SplittableRandom random = new SplittableRandom(seed ^ (index * 0x9E3779B97F4A7C15L)).split();
        return new Prompts.Lengths(around(inputLength, random), around(outputLength, random));
    }

    private int around(int mean, SplittableRandom random) {
        return Math.max(1, (int) Math.round(mean * (1 - range + 2 * range * random.nextDouble())));
    }

    /** What results call the requests' lengths. */
    String workloadName() {
        return workload.orElse(
                dataset == Dataset.RANDOM
                        ? "random:" + inputLength + "/" + outputLength
                        : String.valueOf(datasetPath.orElseThrow().getFileName()));
    }
}
