package dev.tandem.app;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.kv.KvEventSink;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.engine.strategy.select.StrategySelector;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.grammar.LlguidanceFinder;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.TokenizerSource;
import dev.tandem.model.config.GenerationDefaults;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.RopeScaling;
import dev.tandem.model.gguf.GgufVocabulary;
import dev.tandem.model.weights.NamedWeights;
import dev.tandem.model.weights.TextTensors;
import dev.tandem.server.metrics.EngineMetrics;
import dev.tandem.server.openai.CacheSaltFrom;
import dev.tandem.server.openai.ServedModel;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.HuggingFaceTokenizer;
import dev.tandem.text.Tokenizer;
import dev.tandem.text.TokenizerDescription;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * Makes a running engine from the options: opens the model, chooses sizes, and reports the choices.
 *
 * <p>Closing it closes the engine, the model and the tokenizer.
 */
final class EngineAssembly implements AutoCloseable {
    private final Checkpoint checkpoint;
    private final Optional<Tokenizer> tokenizer;
    private final Optional<ChatTemplate> template;
    private final GrammarCompilers grammars;
    private final Engine engine;
    private final Scheduling scheduling;
    private final Backend backend;
    private final Optional<Trace> trace;
    private final StartLog log;

    private EngineAssembly(
            Checkpoint checkpoint,
            Optional<Tokenizer> tokenizer,
            Optional<ChatTemplate> template,
            GrammarCompilers grammars,
            Engine engine,
            Scheduling scheduling,
            Backend backend,
            Optional<Trace> trace,
            StartLog log) {
        this.checkpoint = checkpoint;
        this.tokenizer = tokenizer;
        this.template = template;
        this.grammars = grammars;
        this.engine = engine;
        this.scheduling = scheduling;
        this.backend = backend;
        this.trace = trace;
        this.log = log;
    }

    /**
     * What an engine is started for, which sets defaults.
     *
     * @param text whether a tokenizer is required
     * @param guarded default of --guard: whether offloading runs only where it gains
     * @param cachesPrefixes default of --enable-prefix-caching
     */
    record Use(boolean text, boolean guarded, boolean cachesPrefixes) {
        static final Use SERVE = new Use(true, true, true);
        /** One request has no earlier ones to share KV with. */
        static final Use GENERATE = new Use(true, true, false);
        /** A benchmark measures what it says, so it computes all of its prompts. */
        static final Use MEASURE = new Use(false, false, false);
    }

    /** @param log receives the rows of the summary, and notices */
    static EngineAssembly start(ModelOptions options, Use use, EngineListener listener, StartLog log) {
        return start(options, use, listener, KvEventSink.NONE, log);
    }

    /**
     * Starts an engine.
     *
     * @param kvEvents receives the changes of the prefix cache
     * @param log receives the rows of the summary, and notices
     */
    static EngineAssembly start(
            ModelOptions options, Use use, EngineListener listener, KvEventSink kvEvents, StartLog log) {
        boolean guarded = use.guarded();
        options.check();
        options.gpu.requireDriver();
        Checkpoint checkpoint = open(options, log.models());
        Optional<Tokenizer> tokenizer = Optional.empty();
        Owner owner = checkpoint::close;
        try {
            if (guarded && options.gpu.chosen()) {
                options.strategy.settle(
                        Runtime.getRuntime().availableProcessors(),
                        options.memory.hostKv,
                        CudaBackend.hostObstacle(options, checkpoint.config()),
                        log);
            }
            Strategy strategy = options.strategy.chosen();
            tokenizer = tokenizer(checkpoint, use.text());
            Optional<ChatTemplate> template = template(checkpoint);
            Optional<Trace> trace = options.advanced.trace.map(Trace::new);
            Backend backend =
                    backend(options, checkpoint, trace.map(Trace::timeline).orElse(Timeline.OFF), log);
            owner = backend.executor()::close; // the executor owns the model; the engine will own the executor
            EngineConfig config = new EngineConfig(
                            options.budget(),
                            checkpoint.config().endTokens(),
                            backend.contextTokens(),
                            options.scheduling.maxQueuedRequests,
                            options.seed,
                            options.strategy.shadowVerificationRate(strategy, log),
                            options.scheduling.policy)
                    .withPrefixCache(options.memory.prefixCache(use.cachesPrefixes()));
            strategy.check(backend.executor().limits(), config.contextTokens());
            Scheduling scheduling = Scheduling.of(
                    options,
                    config.budget(),
                    options.strategy.guard.orElse(guarded),
                    backend.executor().limits(),
                    () -> profiles(log).find(options.strategy.profile, backend),
                    log);
            Engine engine = new Engine(
                            config,
                            scheduling.scheduler(),
                            backend.executor(),
                            Clock.system(),
                            trace.map(listener::and).orElse(listener),
                            kvEvents)
                    .start();
            log.row("settings", options.configuration().line());
            return new EngineAssembly(
                    checkpoint,
                    tokenizer,
                    template,
                    new GrammarCompilers(
                            tokenizer, config.endTokens(), LlguidanceFinder.ofProcess()::find, backend.threads()),
                    engine,
                    scheduling,
                    backend,
                    trace,
                    log);
        } catch (RuntimeException | Error e) {
            tokenizer.ifPresent(Tokenizer::close);
            owner.close();
            throw e;
        }
    }

    /** Closes without checked exceptions. */
    private interface Owner extends AutoCloseable {
        @Override
        void close();
    }

    static Checkpoint open(ModelOptions options) {
        return open(options, ModelStore.ofUser());
    }

    private static Checkpoint open(ModelOptions options, ModelStore models) {
        options.advanced.preset.ifPresent(preset -> preset.apply(options));
        ModelReference reference = options.reference();
        Path path = models.open(reference, options.loadFormat == Checkpoint.LoadFormat.AUTO);
        Checkpoint opened = Checkpoint.open(path, options.loadFormat, options.seed, options.maxModelLen);
        return reference.servedName().map(opened::named).orElse(opened);
    }

    /** Measures a profile and saves it. */
    static Profile profile(ModelOptions options, StartLog log) {
        options.check();
        Strategy chosen = options.strategy.chosen();
        if (options.gpu.chosen() && !chosen.offloads()) {
            options.strategy.strategy = Strategy.ADAPTIVE.flag();
            log.notice("The profile is measured for --strategy adaptive: " + chosen.flag() + " needs none.");
        }
        Backend backend = backend(options, log);
        try {
            return profiles(log).measure(backend);
        } finally {
            backend.executor().close();
        }
    }

    /** Starts an executor without an engine; closing it closes the model. */
    static Backend backend(ModelOptions options, StartLog log) {
        options.check();
        options.gpu.requireDriver();
        Checkpoint checkpoint = open(options, log.models());
        try {
            return backend(options, checkpoint, Timeline.OFF, log);
        } catch (RuntimeException | Error e) {
            checkpoint.close();
            throw e;
        }
    }

    private static Backend backend(ModelOptions options, Checkpoint checkpoint, Timeline timeline, StartLog log) {
        report(checkpoint, log);
        reportUnused(checkpoint, log);
        Backend backend = options.gpu.chosen()
                ? CudaBackend.start(options, checkpoint, timeline, log)
                : CpuBackend.start(options, checkpoint, log);
        reportContext(options, checkpoint.config(), backend.contextTokens(), log);
        return backend;
    }

    /** The cached profile of this machine's GPU and the model of the options, without loading the model. */
    static Optional<Profile> cachedProfile(ModelOptions options, StartLog log) {
        try (Checkpoint checkpoint = open(options, log.models())) {
            return CudaBackend.Gpu.find(options.gpu)
                    .flatMap(gpu -> profiles(log)
                            .cached(
                                    CudaBackend.profileName(gpu, checkpoint, options),
                                    checkpoint.config().layers()));
        }
    }

    static Profiles profiles(StartLog log) {
        Path cache = DefaultModel.cache(System.getenv(), Path.of(System.getProperty("user.home")));
        return new Profiles(cache.resolve("profiles"), log);
    }

    static Optional<Tokenizer> tokenizer(Checkpoint checkpoint, boolean needed) {
        return switch (checkpoint.tokenizer()) {
            case TokenizerSource.Directory directory ->
                needed || Files.exists(directory.path().resolve("tokenizer.json"))
                        ? Optional.of(HuggingFaceTokenizer.open(directory.path()))
                        : Optional.empty();
            case TokenizerSource.Gguf gguf ->
                Optional.of(describe(gguf.vocabulary()).open(checkpoint.name()));
        };
    }

    private static TokenizerDescription describe(GgufVocabulary v) {
        return new TokenizerDescription(
                v.kind(),
                v.preTokenizer(),
                v.tokens(),
                v.scores(),
                v.types(),
                v.merges(),
                v.beginToken(),
                v.unknownToken(),
                v.addBegin(),
                v.addSpacePrefix());
    }

    private static Optional<ChatTemplate> template(Checkpoint checkpoint) {
        return switch (checkpoint.tokenizer()) {
            case TokenizerSource.Directory directory -> ChatTemplate.read(directory.path());
            case TokenizerSource.Gguf gguf -> {
                GgufVocabulary v = gguf.vocabulary();
                yield v.chatTemplate().isEmpty()
                        ? Optional.empty()
                        : Optional.of(new ChatTemplate(
                                v.chatTemplate(), spelling(v, v.beginToken()), spelling(v, v.endToken())));
            }
        };
    }

    private static String spelling(GgufVocabulary vocabulary, int id) {
        return id >= 0 && id < vocabulary.tokens().size() ? vocabulary.tokens().get(id) : "";
    }

    private static void reportUnused(Checkpoint checkpoint, StartLog log) {
        if (checkpoint.weights() instanceof NamedWeights named && named.stored() instanceof TextTensors text) {
            log.notice(text.unused() + " tensors are not used, those of " + String.join(" and ", text.unusedParts())
                    + ": of a model that also takes images, the text part is served. Requests with images are"
                    + " refused.");
        }
    }

    private static void report(Checkpoint checkpoint, StartLog log) {
        ModelConfig config = checkpoint.config();
        log.progress("loading " + checkpoint.name() + " ...");
        log.row(
                "model",
                String.format(
                        Locale.ROOT,
                        "%s (%s, %d layers, hidden size %,d, %d heads, %d KV heads of %d, vocabulary %,d)",
                        checkpoint.name(),
                        config.family(),
                        config.layers(),
                        config.hidden(),
                        config.heads(),
                        config.kvHeads(),
                        config.headDim(),
                        config.vocabulary()));
    }

    private static void reportContext(ModelOptions options, ModelConfig config, int contextTokens, StartLog log) {
        int allowed = options.contextTokens(config);
        log.row("context", String.format(Locale.ROOT, "%,d tokens per request, prompt and output", contextTokens));
        if (contextTokens < allowed) {
            log.notice("Requests are limited to " + contextTokens + " tokens instead of " + allowed
                    + ": the GPU KV pool holds no more. Raise --kv-cache-memory or --gpu-memory-utilization.");
        }
        if (config.rope().scaling() instanceof RopeScaling.LongRope longRope) {
            reportLongRope(longRope, config.contextTokens(), log);
        }
    }

    private static void reportLongRope(RopeScaling.LongRope rope, int contextTokens, StartLog log) {
        if (rope.isLong(contextTokens)) {
            log.notice("LongRoPE's long factors are used for all requests, because --max-model-len is above "
                    + rope.originalContext() + ". Short prompts may get worse answers than with that length or less.");
        } else if (rope.maxContext() > rope.originalContext()) {
            log.row(
                    "LongRoPE",
                    String.format(
                            Locale.ROOT,
                            "short factors, for %,d tokens; --max-model-len takes the long ones, for up to %,d",
                            rope.originalContext(),
                            rope.maxContext()));
        }
    }

    Engine engine() {
        return engine;
    }

    Checkpoint checkpoint() {
        return checkpoint;
    }

    /** The decisions of the last steps. */
    DecisionLog decisions() {
        return scheduling.decisions();
    }

    /** The cost model of the strategy; empty when it does not predict. */
    Optional<CostModel> cost() {
        return scheduling.cost();
    }

    /** The profile that was measured on this machine with this model; empty where there is none. */
    Optional<Profile> measuredProfile(ModelOptions options) {
        return scheduling
                .profile()
                .or(() -> profiles(log)
                        .known(
                                options.strategy.profile,
                                backend.profileName(),
                                backend.executor().limits()))
                .filter(profile -> profile.name().equals(backend.profileName()));
    }

    /** The strategy selector; empty without the guard. */
    Optional<StrategySelector> guard() {
        return scheduling.guard();
    }

    /** The ideal of this machine; empty where the strategy does not offload, or the tiers do not overlap. */
    Optional<ServedIdeal> ideal() {
        return scheduling.ideal();
    }

    /** Adds what the strategy knows to the metrics. */
    void watchedBy(EngineMetrics metrics) {
        cost().ifPresent(metrics::watch);
        guard().ifPresent(metrics::watch);
        ideal().ifPresent(ideal -> metrics.watchIdeal(ideal::ratio));
    }

    Optional<Tokenizer> tokenizer() {
        return tokenizer;
    }

    Optional<ChatTemplate> template() {
        return template;
    }

    /** Compiles the grammars of requests for the model's vocabulary. */
    GrammarCompiler grammars() {
        return grammars;
    }

    /**
     * The model as the APIs serve it.
     *
     * @param name by which it is requested
     */
    ServedModel served(String name, CacheSaltFrom cacheSaltFrom) {
        return new ServedModel(
                name,
                engine,
                tokenizer.orElseThrow(),
                template,
                defaults(checkpoint.defaults()),
                grammars,
                cacheSaltFrom);
    }

    private static ServedModel.SamplingDefaults defaults(GenerationDefaults d) {
        ServedModel.SamplingDefaults neutral = ServedModel.SamplingDefaults.NEUTRAL;
        return new ServedModel.SamplingDefaults(
                d.temperature().orElse(neutral.temperature()),
                d.topP().orElse(neutral.topP()),
                d.topK().orElse(neutral.topK()),
                d.repetitionPenalty().orElse(neutral.repetitionPenalty()));
    }

    /** The name of the model: its own, or that of the default model. */
    String name(ModelOptions options) {
        return options.model().isEmpty() ? DefaultModel.NAME : checkpoint.name();
    }

    /** Bytes of weights that a decode step reads. */
    long weightBytes() {
        return backend.weightBytes();
    }

    /** Milliseconds since the start in which the GPU was busy and idle; empty on the CPU. */
    Optional<double[]> gpuTime() {
        return backend.gpuTime().map(Supplier::get);
    }

    @Override
    public void close() {
        engine.close();
        grammars.close();
        trace.ifPresent(t -> t.write(log));
        tokenizer.ifPresent(Tokenizer::close);
    }
}
