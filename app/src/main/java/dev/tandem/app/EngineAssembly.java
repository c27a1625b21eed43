package dev.tandem.app;

import dev.tandem.cpu.CpuExecutor;
import dev.tandem.cpu.CpuOptions;
import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.topology.ThreadAffinity;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.strategy.Strategy;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.TokenizerSource;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.gguf.GgufVocabulary;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.HuggingFaceTokenizer;
import dev.tandem.text.Tokenizer;
import dev.tandem.text.TokenizerDescription;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;

/**
 * Options to a running engine: finds the model, chooses sizes, says what was chosen and what was given up.
 *
 * <p>Closing it closes the engine, the model and the tokenizer.
 */
final class EngineAssembly implements AutoCloseable {
    private static final long MOST_KV = 4L << 30;

    private final Checkpoint checkpoint;
    private final Optional<Tokenizer> tokenizer;
    private final Optional<ChatTemplate> template;
    private final Engine engine;
    private final Scheduling scheduling;
    private final long weightBytes;

    private EngineAssembly(
            Checkpoint checkpoint,
            Optional<Tokenizer> tokenizer,
            Optional<ChatTemplate> template,
            Engine engine,
            Scheduling scheduling,
            long weightBytes) {
        this.checkpoint = checkpoint;
        this.tokenizer = tokenizer;
        this.template = template;
        this.engine = engine;
        this.scheduling = scheduling;
        this.weightBytes = weightBytes;
    }

    /**
     * @param needText whether a tokenizer is indispensable
     * @param guarded whether offloading must prove its gain, where the options do not say
     * @param log told what was found, chosen and given up
     */
    static EngineAssembly start(
            ModelOptions options, boolean needText, boolean guarded, EngineListener listener, PrintStream log) {
        Strategy strategy = options.strategy.chosen();
        Checkpoint checkpoint = open(options);
        Optional<Tokenizer> tokenizer = Optional.empty();
        Owner owner = checkpoint::close;
        try {
            tokenizer = tokenizer(checkpoint, needText);
            Optional<ChatTemplate> template = template(checkpoint);
            Sizes sizes = Sizes.choose(options, checkpoint.config());
            report(checkpoint, options, sizes, log);
            EngineConfig config = new EngineConfig(
                    new Budget(options.maxNumBatchedTokens, options.maxNumSeqs, options.maxPrefillChunk),
                    checkpoint.config().endTokens(),
                    sizes.contextTokens(),
                    options.maxQueuedRequests,
                    options.seed);
            CpuExecutor executor = new CpuExecutor(checkpoint, sizes.cpu());
            owner = executor::close; // of the model from here on, until the engine takes it
            strategy.check(executor.limits(), config.contextTokens());
            Scheduling scheduling = Scheduling.of(
                    options,
                    config.budget(),
                    options.strategy.guard.orElse(guarded),
                    executor.limits(),
                    () -> profile(options, sizes, checkpoint, executor, log),
                    log);
            Engine engine = new Engine(config, scheduling.scheduler(), executor, Clock.system(), listener).start();
            return new EngineAssembly(checkpoint, tokenizer, template, engine, scheduling, executor.weightBytes());
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

    private static Checkpoint open(ModelOptions options) {
        Path path = options.model.orElseGet(() -> DefaultModel.fetch(
                System.getenv(), Path.of(System.getProperty("user.home")), Terminal.standardError()));
        return Checkpoint.open(path, options.loadFormat, options.seed);
    }

    /** Measures a profile, and keeps it. */
    static Profile profile(ModelOptions options, PrintStream log) {
        Checkpoint checkpoint = open(options);
        Sizes sizes;
        CpuExecutor executor;
        try {
            sizes = Sizes.choose(options, checkpoint.config());
            report(checkpoint, options, sizes, log);
            executor = new CpuExecutor(checkpoint, sizes.cpu());
        } catch (RuntimeException | Error e) {
            checkpoint.close();
            throw e;
        }
        try (executor) {
            return profiles(log).measure(profileName(checkpoint, sizes), executor, options.seed);
        }
    }

    private static Profile profile(
            ModelOptions options, Sizes sizes, Checkpoint checkpoint, CpuExecutor executor, PrintStream log) {
        return profiles(log).find(options.strategy.profile, profileName(checkpoint, sizes), executor, options.seed);
    }

    private static Profiles profiles(PrintStream log) {
        Path cache = DefaultModel.cache(System.getenv(), Path.of(System.getProperty("user.home")));
        return new Profiles(cache.resolve("profiles"), log);
    }

    private static String profileName(Checkpoint checkpoint, Sizes sizes) {
        CpuOptions cpu = sizes.cpu();
        return Profiles.name(checkpoint.name(), cpu.weightType().flag(), cpu.threads(), cpu.attentionThreads());
    }

    private static Optional<Tokenizer> tokenizer(Checkpoint checkpoint, boolean needed) {
        return switch (checkpoint.tokenizer()) {
            case TokenizerSource.Directory directory ->
                needed || Files.exists(directory.path().resolve("tokenizer.json"))
                        ? Optional.of(HuggingFaceTokenizer.open(directory.path()))
                        : Optional.empty();
            case TokenizerSource.Gguf gguf -> Optional.of(describe(gguf.vocabulary()).open(checkpoint.name()));
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
                        : Optional.of(new ChatTemplate(v.chatTemplate(), spelling(v, v.beginToken()), spelling(v, v.endToken())));
            }
        };
    }

    private static String spelling(GgufVocabulary vocabulary, int id) {
        return id >= 0 && id < vocabulary.tokens().size() ? vocabulary.tokens().get(id) : "";
    }

    /** What the options leave open, decided. */
    private record Sizes(CpuOptions cpu, int contextTokens, long gpuBytes, long hostBytes) {
        static Sizes choose(ModelOptions options, ModelConfig config) {
            DataType type = options.dtype.equals("auto") ? config.fileType() : DataType.of(options.dtype);
            long blockBytes = config.kvBytesPerToken(type) * KvStore.BLOCK_TOKENS;
            long budget = options.kvCacheMemory.map(ByteSize::bytes).orElse(Math.min(MOST_KV, memory() / 4));
            int gpuBlocks = options.gpuBlocks.orElse(blocks(budget, blockBytes));
            int hostBlocks = blocks(options.hostKv.map(ByteSize::bytes).orElse(budget), blockBytes);
            int wanted = Math.min(options.maxModelLen.orElse(config.usableContext()), config.usableContext());
            int context = Math.min(wanted, gpuBlocks * KvStore.BLOCK_TOKENS);
            if (context < 2) {
                throw new IllegalArgumentException("the GPU pool holds " + gpuBlocks + " KV blocks of " + blockBytes
                        + " bytes; a sequence needs at least one. Raise --kv-cache-memory or --num-gpu-blocks-override");
            }
            int threads = options.threads.orElse(Runtime.getRuntime().availableProcessors());
            CpuOptions cpu = new CpuOptions(
                    threads,
                    options.attentionThreads.orElse(threads),
                    options.pinThreads && threads <= ThreadAffinity.allowed().cardinality(),
                    type,
                    type,
                    gpuBlocks,
                    hostBlocks,
                    options.maxNumBatchedTokens);
            return new Sizes(cpu, context, gpuBlocks * blockBytes, hostBlocks * blockBytes);
        }

        private static int blocks(long bytes, long blockBytes) {
            return (int) Math.min(Integer.MAX_VALUE / KvStore.BLOCK_TOKENS, bytes / blockBytes);
        }

        private static long memory() {
            return ManagementFactory.getOperatingSystemMXBean() instanceof com.sun.management.OperatingSystemMXBean system
                    ? system.getTotalMemorySize()
                    : Runtime.getRuntime().maxMemory();
        }
    }

    private static void report(Checkpoint checkpoint, ModelOptions options, Sizes sizes, PrintStream log) {
        ModelConfig config = checkpoint.config();
        CpuOptions cpu = sizes.cpu();
        log.printf(
                Locale.ROOT,
                "model %s: %s, %d layers, %d wide, %d/%d heads of %d, vocabulary %,d%n",
                checkpoint.name(), config.family(), config.layers(), config.hidden(), config.heads(), config.kvHeads(),
                config.headDim(), config.vocabulary());
        log.printf(
                Locale.ROOT,
                "executor: CPU, %d threads%s, %d-bit vectors, weights and KV %s (--dtype %s)%n",
                cpu.threads(), cpu.pinThreads() ? " pinned" : "", Lanes.bits(), cpu.weightType().flag(), options.dtype);
        log.printf(
                Locale.ROOT,
                "KV: GPU pool %,d blocks (%s), host pool %,d blocks (%s); context %,d tokens%n",
                cpu.gpuBlocks(), new ByteSize(sizes.gpuBytes()), cpu.hostBlocks(), new ByteSize(sizes.hostBytes()),
                sizes.contextTokens());
        if (options.pinThreads && !cpu.pinThreads()) {
            log.println("given up: threads are not pinned, there are more of them than cores or the system cannot");
        }
        if (config.slidingWindow() > 0 && config.slidingWindow() < config.contextTokens()) {
            log.printf(
                    "given up: the context is limited to the model's sliding window of %d tokens, of %d%n",
                    config.slidingWindow(), config.contextTokens());
        }
        int allowed = Math.min(options.maxModelLen.orElse(config.usableContext()), config.usableContext());
        if (sizes.contextTokens() < allowed) {
            log.printf(
                    "given up: the KV pool holds %d tokens, so sequences are limited to that instead of %d%n",
                    sizes.contextTokens(), allowed);
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
        return scheduling.log();
    }

    /** What the strategy predicts by; empty where it does not predict. */
    Optional<CostModel> cost() {
        return scheduling.cost();
    }

    Optional<Tokenizer> tokenizer() {
        return tokenizer;
    }

    Optional<ChatTemplate> template() {
        return template;
    }

    /** Bytes of weights a decoding step reads. */
    long weightBytes() {
        return weightBytes;
    }

    @Override
    public void close() {
        engine.close();
        tokenizer.ifPresent(Tokenizer::close);
    }
}
