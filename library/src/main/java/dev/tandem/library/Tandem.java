package dev.tandem.library;

import dev.tandem.app.LoadedModel;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.request.RequestException;
import dev.tandem.server.metrics.EngineMetrics;
import dev.tandem.server.openai.LocalApi;
import dev.tandem.server.openai.ServedModel;
import dev.tandem.server.openai.TokenizerPool;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;

/**
 * A model in this process, with the engine of {@code tandem serve}.
 *
 * <pre>{@code
 * try (var tandem = Tandem.load("smollm2")) {
 *     tandem.chat("What is the capital of France?").forEach(System.out::print);
 * }
 * }</pre>
 *
 * <p>Requests of many threads, also virtual ones, are computed together. Several models may be loaded at a time. The
 * logger {@code dev.tandem.library} says how the model was loaded.
 *
 * <p>Owned by: thread-safe. Closing it ends answers that are being written with an error, ends all its threads, and
 * frees its memory.
 */
public final class Tandem implements AutoCloseable {
    private static final Logger LOG = System.getLogger(Tandem.class.getPackageName());

    private final Function<EngineMetrics, Runnable> watch;
    private final Runnable unload;
    private final ServedModel model;
    private final TokenizerPool tokenizers;
    private final LocalApi api;
    private final List<EngineMetrics> metrics = new CopyOnWriteArrayList<>();

    /**
     * @param watch has metrics follow the model's engine; its result ends that
     * @param unload frees the model
     */
    Tandem(ServedModel model, Function<EngineMetrics, Runnable> watch, Runnable unload) {
        this.watch = watch;
        this.unload = unload;
        this.model = model;
        this.tokenizers = TokenizerPool.of(model.engine().config().maxQueuedRequests());
        this.api = new LocalApi(model, tokenizers);
    }

    /** Loads the default model, a small one that is fetched once. */
    public static Tandem load() {
        return load(LoadOptions.defaults());
    }

    /** Loads a model; {@link LoadOptions#model} lists what may be named. */
    public static Tandem load(String model) {
        return load(LoadOptions.of(model));
    }

    /**
     * Loads a model.
     *
     * @throws ConfigurationException when an option, the model, this machine or the flags of this JVM do not allow it
     */
    public static Tandem load(LoadOptions options) {
        JvmFlags.check();
        LoadedModel loaded =
                LoadedModel.load(options.model(), options.arguments(), LogLines.to(line -> LOG.log(Level.INFO, line)));
        return new Tandem(loaded.served(), loaded::watchedBy, loaded::close);
    }

    /** Answers a user, with all defaults. */
    public Answer chat(String user) {
        return chat(ChatRequest.of(new Message.User(user)));
    }

    /**
     * Answers a conversation.
     *
     * @throws RequestException when the request is refused, too many wait, or this is closed
     */
    public Answer chat(ChatRequest request) {
        return start(() -> new Answer(api.chat(request.json())));
    }

    /**
     * Continues a text as it is.
     *
     * @throws RequestException when the request is refused, too many wait, or this is closed
     */
    public Answer complete(CompletionRequest request) {
        return start(() -> new Answer(api.complete(request.json())));
    }

    private interface Start<T> {
        T call() throws InterruptedException;
    }

    private <T> T start(Start<T> work) {
        try {
            return work.call();
        } catch (RequestException e) {
            if (e.category() == RequestException.Category.OVERLOADED) {
                metrics.forEach(EngineMetrics::rejected);
            }
            throw e;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AnswerException("the thread was interrupted before the request was accepted");
        }
    }

    /** The name of the model. */
    public String model() {
        return model.name();
    }

    /** Max tokens of one request, prompt and answer together. */
    public int contextTokens() {
        return model.engine().config().contextTokens();
    }

    /** The number of tokens of a text. */
    public int countTokens(String text) {
        return start(() -> api.countTokens(text));
    }

    /** Queues and KV memory after the last step. */
    public EngineStats stats() {
        return model.engine().stats();
    }

    /** Whether the engine takes requests. */
    public Engine.Health health() {
        return model.engine().health();
    }

    /**
     * Has metrics follow the model.
     *
     * @return ends that
     */
    Runnable watchedBy(EngineMetrics added) {
        metrics.add(added);
        Runnable end = watch.apply(added);
        return () -> {
            end.run();
            metrics.remove(added);
        };
    }

    /**
     * Refuses new requests and waits until the answers that are being written have ended; false when they did not in
     * time. {@link #close} is still to be called.
     */
    public boolean drain(Duration limit) throws InterruptedException {
        return model.engine().drain(limit);
    }

    @Override
    public void close() {
        tokenizers.close(); // first: its threads use the model's tokenizer
        unload.run();
    }
}
