package dev.tandem.engine.loop;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.schedule.Scheduler;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;

/**
 * A running engine: submit requests, receive their events, cancel them. Any thread may call it.
 *
 * <p>Closing ends the engine thread and the executor; requests that still run are failed, none is forgotten.
 */
public final class Engine implements AutoCloseable {
    private static final Logger LOG = System.getLogger(Engine.class.getName());
    private static final Health SERVING = new Health.Serving();
    private static final String SHUT_DOWN = "it was shut down";
    /**
     * Between two plans where requests are live and nothing can be computed, which only time or a command may change.
     */
    private static final long EMPTY_PLAN_NANOS = 1_000_000;

    /** Whether requests are served, and why not. */
    public sealed interface Health {
        record Serving() implements Health {}

        /** It serves, but without the host's help, or a step takes far longer than it should. */
        record Degraded(String reason) implements Health {}

        record Draining() implements Health {}

        record Dead(String reason) implements Health {}
    }

    private final EngineConfig config;
    private final ExecutorLimits limits;
    private final AdmissionQueue arrivals;
    private final EngineLoop loop;
    private final ShadowVerification shadowVerification;
    private final Executor executor;
    private final Thread thread;
    private final CompletableFuture<Health.Dead> ended = new CompletableFuture<>();
    private final CountDownLatch closed = new CountDownLatch(1);
    private volatile boolean stopping;
    /** Serving, then perhaps draining, then dead. */
    private final AtomicReference<Health> health = new AtomicReference<>(SERVING);

    /** Takes ownership of the executor. */
    public Engine(EngineConfig config, Scheduler scheduler, Executor executor, Clock clock, EngineListener listener) {
        this.limits = executor.limits();
        checkPools(config, limits);
        this.config = config;
        this.executor = executor;
        this.arrivals = new AdmissionQueue(config.maxQueuedRequests(), clock);
        this.shadowVerification =
                new ShadowVerification(config.shadowVerificationRate(), config.seed(), arrivals::offerOwn, listener);
        this.loop = new EngineLoop(
                config,
                arrivals,
                scheduler,
                executor,
                clock,
                config.shadowVerificationRate() > 0 ? ShadowVerification.withoutOwn(listener) : listener);
        this.thread = Thread.ofPlatform().name("tandem-engine").unstarted(this::run);
    }

    private static void checkPools(EngineConfig config, ExecutorLimits limits) {
        int needed = (config.contextTokens() + limits.blockTokens() - 1) / limits.blockTokens();
        if (needed > limits.gpuBlocks()) {
            throw new ConfigurationException("a sequence of " + config.contextTokens() + " tokens needs " + needed
                    + " KV blocks of " + limits.blockTokens() + " tokens but the GPU pool has " + limits.gpuBlocks()
                    + "; give it more memory or lower --max-model-len");
        }
    }

    public Engine start() {
        thread.start();
        return this;
    }

    public EngineConfig config() {
        return config;
    }

    public ExecutorLimits limits() {
        return limits;
    }

    public EngineStats stats() {
        return loop.stats();
    }

    /**
     * Requests that have arrived and not started, this very moment, and those that wait again since their KV was
     * dropped.
     */
    public int waiting() {
        return arrivals.waiting() + loop.stats().dropped();
    }

    public Health health() {
        Health now = health.get();
        if (!(now instanceof Health.Serving)) {
            return now;
        }
        String hostLost = loop.stats().hostLost();
        Optional<String> trouble = hostLost.isEmpty() ? executor.trouble() : Optional.of(hostLost);
        return trouble.<Health>map(Health.Degraded::new).orElse(now);
    }

    /**
     * Completed once, when the engine has ended, be it because it failed or because it was shut down: every request has
     * been told, and the executor is not yet closed, for a device that hangs may never close. Dependents run on a
     * thread of their own and may end the process.
     */
    public CompletionStage<Health.Dead> whenEnded() {
        return ended.minimalCompletionStage();
    }

    /**
     * Queues all of the requests or none.
     *
     * @throws RequestException when one cannot be served, the queue is full, or the engine is ending
     */
    public void submit(List<Request> requests) {
        requests.forEach(this::check);
        if (health.get() instanceof Health.Dead dead) {
            throw RequestException.of(
                    RequestException.Category.UNAVAILABLE, "the engine has stopped: " + dead.reason());
        }
        arrivals.offer(shadowVerification.watch(requests));
        LockSupport.unpark(thread);
    }

    public void submit(Request request) {
        submit(List.of(request));
    }

    /** Ends a request at the next step, wherever it stands. */
    public void cancel(String requestId) {
        if (health.get() instanceof Health.Dead) {
            return; // nobody would take the command, and all requests have ended
        }
        arrivals.cancel(requestId);
        LockSupport.unpark(thread);
    }

    private void check(Request request) {
        checkLength(request);
        checkTokens("prompt", Arrays.stream(request.prompt()));
        checkTokens(
                "logit_bias", request.sampling().logitBias().keySet().stream().mapToInt(Integer::intValue));
        checkTokens("stop_token_ids", request.sampling().stopTokenIds().stream().mapToInt(Integer::intValue));
        checkEnds(request.sampling());
        if (request.priority() != 0 && config.schedulingPolicy() == SchedulingPolicy.FCFS) {
            throw RequestException.bad(
                    "priority",
                    "priority is " + request.priority()
                            + " but priority scheduling is not enabled; leave priority out, or start the"
                            + " server with --scheduling-policy priority");
        }
    }

    /** In vLLM's words: clients look for "maximum context length is" to learn that they have to send less. */
    private void checkLength(Request request) {
        int context = config.contextTokens();
        int prompt = request.prompt().length;
        String limit = "This model's maximum context length is " + context + " tokens. However, you requested ";
        OptionalInt completion = request.sampling().maxTokens();
        if (completion.isPresent() && (long) prompt + completion.getAsInt() > context) {
            throw RequestException.bad(
                    prompt < context ? request.sampling().maxTokensField() : "prompt",
                    limit + ((long) prompt + completion.getAsInt()) + " tokens (" + prompt + " in the messages, "
                            + completion.getAsInt()
                            + " in the completion). Please reduce the length of the messages or completion.");
        }
        if (prompt >= context) {
            throw RequestException.bad(
                    "prompt",
                    limit + prompt + " tokens in the messages, which leaves none for the completion."
                            + " Please reduce the length of the messages.");
        }
    }

    /** Some token must be possible while the ends are not. */
    private void checkEnds(SamplingParams sampling) {
        if (sampling.minTokens() == 0) {
            return;
        }
        Set<Integer> ends = new HashSet<>(config.endTokens());
        ends.addAll(sampling.stopTokenIds());
        if (ends.size() >= limits.vocabulary()) {
            throw RequestException.bad(
                    "stop_token_ids",
                    "min_tokens is " + sampling.minTokens()
                            + " and stop_token_ids with the end-of-sequence tokens name all " + limits.vocabulary()
                            + " tokens of the vocabulary, so no token may come first; leave one of them out");
        }
    }

    private void checkTokens(String field, IntStream tokens) {
        tokens.filter(token -> token < 0 || token >= limits.vocabulary())
                .findFirst()
                .ifPresent(token -> {
                    throw RequestException.bad(
                            field,
                            field + " has token id " + token + ", which is not in the vocabulary of "
                                    + limits.vocabulary());
                });
    }

    private void run() {
        String reason = SHUT_DOWN;
        try {
            while (!stopping) {
                if (!loop.step() && !arrivals.hasCommands() && !stopping) {
                    if (!loop.isIdle()) {
                        LockSupport.parkNanos(this, EMPTY_PLAN_NANOS);
                    } else if (arrivals.isClosed()) {
                        break;
                    } else {
                        LockSupport.park(this);
                    }
                }
            }
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, "The engine stopped", e);
            reason = e.getMessage() == null ? e.toString() : e.getMessage();
        } finally {
            end(reason);
        }
    }

    /** Tells everybody, then closes the executor; neither keeps the other from happening. */
    private void end(String reason) {
        Health.Dead dead = new Health.Dead(reason);
        health.set(dead);
        arrivals.close();
        try {
            loop.failAll(reason);
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, "not every request could be told that the engine has stopped", e);
        }
        ended.completeAsync(
                () -> dead,
                task -> Thread.ofPlatform().daemon().name("engine-ended").start(task));
        try {
            executor.close();
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, "the executor could not be closed; what it holds is freed when the process ends", e);
        } finally {
            closed.countDown();
        }
    }

    /**
     * Refuses new requests and waits for those under way; false when they did not end in time. Not for the engine
     * thread, and so not for event sinks.
     */
    public boolean drain(Duration limit) throws InterruptedException {
        if (Thread.currentThread() == thread) {
            throw new IllegalStateException(
                    "an event sink cannot wait for the engine thread, which calls it; drain on another thread");
        }
        health.compareAndSet(SERVING, new Health.Draining());
        arrivals.close();
        LockSupport.unpark(thread);
        return closed.await(limit.toNanos(), TimeUnit.NANOSECONDS);
    }

    /**
     * Ends the engine thread after its current step and waits for that; an event sink, which runs on it, does not wait.
     */
    @Override
    public void close() {
        stopping = true;
        arrivals.close();
        if (thread.getState() == Thread.State.NEW) {
            if (closed.getCount() > 0) {
                end(SHUT_DOWN);
            }
            return;
        }
        LockSupport.unpark(thread);
        boolean interrupted = false;
        while (Thread.currentThread() != thread) {
            try {
                thread.join(); // not only closed: nothing of it is left
                break;
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
