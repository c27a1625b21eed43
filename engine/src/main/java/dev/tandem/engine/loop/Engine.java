package dev.tandem.engine.loop;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.KvEventSink;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.observe.RequestSnapshot;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.schedule.Scheduler;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;

/**
 * A running engine: submit requests, receive their events, cancel them.
 *
 * <p>{@link #close} ends the engine thread and the executor; requests that still run receive a failure.
 *
 * <p>Owned by: any thread may call it.
 */
public final class Engine implements AutoCloseable {
    private static final Logger LOG = System.getLogger(Engine.class.getName());
    private static final Health SERVING = new Health.Serving();
    private static final String SHUT_DOWN = "it was shut down";
    /** Pause after an empty plan while requests are live: only time or a command can change such a state. */
    private static final long EMPTY_PLAN_NANOS = 1_000_000;

    /** Whether the engine serves requests. */
    public sealed interface Health {
        /** The engine serves requests. */
        record Serving() implements Health {}

        /** The engine serves requests, but without host attention, or a step takes far too long. */
        record Degraded(String reason) implements Health {}

        /** The engine refuses new requests and finishes the accepted ones. */
        record Draining() implements Health {}

        /** The engine has ended. */
        record Dead(String reason) implements Health {}
    }

    private final EngineConfig config;
    private final ExecutorLimits limits;
    private final RequestChecks checks;
    private final AdmissionQueue arrivals;
    private final EngineLoop loop;
    private final ShadowVerification shadowVerification;
    private final Executor executor;
    private final Thread thread;
    private final CompletableFuture<Health.Dead> ended = new CompletableFuture<>();
    private final CountDownLatch closed = new CountDownLatch(1);
    private volatile boolean stopping;
    /** It moves from serving to draining to dead; draining may be skipped. */
    private final AtomicReference<Health> health = new AtomicReference<>(SERVING);

    /** Creates an engine that owns the executor; {@link #start} starts its thread. */
    public Engine(EngineConfig config, Scheduler scheduler, Executor executor, Clock clock, EngineListener listener) {
        this(config, scheduler, executor, clock, listener, KvEventSink.NONE);
    }

    /**
     * Creates an engine that owns the executor; {@link #start} starts its thread.
     *
     * @param kvEvents receives the changes of the prefix cache after each step
     */
    public Engine(
            EngineConfig config,
            Scheduler scheduler,
            Executor executor,
            Clock clock,
            EngineListener listener,
            KvEventSink kvEvents) {
        this.limits = executor.limits();
        checkPools(config, limits);
        this.config = config;
        this.checks = new RequestChecks(config, limits);
        this.executor = executor;
        this.arrivals = new AdmissionQueue(config.maxQueuedRequests(), clock);
        this.shadowVerification = new ShadowVerification(
                config.shadowVerificationRate(), config.seed(), arrivals::offerInternal, listener);
        this.loop = new EngineLoop(
                config,
                arrivals,
                scheduler,
                executor,
                clock,
                config.shadowVerificationRate() > 0 ? ShadowVerification.withoutVerifications(listener) : listener,
                kvEvents);
        this.thread = Thread.ofPlatform().name("tandem-engine").unstarted(this::run);
    }

    private static void checkPools(EngineConfig config, ExecutorLimits limits) {
        int needed = limits.layout().blocks(limits.maxHeld(KvTier.GPU, config.contextTokens()));
        if (needed > limits.gpuBlocks()) {
            throw new ConfigurationException("a sequence of " + config.contextTokens() + " tokens needs " + needed
                    + " KV blocks of " + limits.blockTokens() + " tokens but the GPU pool has " + limits.gpuBlocks()
                    + "; give it more memory or lower --max-model-len");
        }
    }

    /** Starts the engine thread. */
    public Engine start() {
        thread.start();
        return this;
    }

    /** The configuration. */
    public EngineConfig config() {
        return config;
    }

    /** The executor's limits. */
    public ExecutorLimits limits() {
        return limits;
    }

    /** Queues and pools after the last step. */
    public EngineStats stats() {
        return loop.stats();
    }

    /** Requests that have not started now, and those whose KV was dropped by the last step. */
    public int waiting() {
        return arrivals.waiting() + loop.stats().requests().dropped();
    }

    /**
     * The live requests after the next turn, or of the last tenth of a second. After {@code limit}, as during a long
     * step, the last known ones. Not for the engine thread, which it waits for.
     */
    public RequestSnapshot requests(Duration limit) throws InterruptedException {
        if (health.get() instanceof Health.Dead) {
            return loop.snapshots().last();
        }
        CompletableFuture<RequestSnapshot> asked = loop.snapshots().ask().toCompletableFuture();
        LockSupport.unpark(thread);
        try {
            return asked.get(limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            return loop.snapshots().last();
        } catch (ExecutionException e) {
            throw new IllegalStateException("a snapshot of the requests is never failed", e);
        }
    }

    /** Whether the engine serves requests now. */
    public Health health() {
        Health now = Objects.requireNonNull(health.get());
        if (!(now instanceof Health.Serving)) {
            return now;
        }
        String hostLost = loop.stats().hostLost();
        Optional<String> reason = hostLost.isEmpty() ? executor.trouble() : Optional.of(hostLost);
        return reason.<Health>map(Health.Degraded::new).orElse(now);
    }

    /**
     * Completes when the engine has failed or was shut down.
     *
     * <p>By then every request has received its last event. The executor is not closed yet, because a device that hangs
     * may never close. Dependents run on a thread of their own and may end the process.
     */
    public CompletionStage<Health.Dead> whenEnded() {
        return ended.minimalCompletionStage();
    }

    /**
     * Submits all of the requests or none.
     *
     * @throws RequestException when one cannot be served, the queue is full, or the engine is ending
     */
    public void submit(List<Request> requests) {
        requests.forEach(checks::check);
        if (health.get() instanceof Health.Dead dead) {
            throw RequestException.of(
                    RequestException.Category.UNAVAILABLE, "the engine has stopped: " + dead.reason());
        }
        arrivals.offer(shadowVerification.watch(requests));
        LockSupport.unpark(thread);
    }

    /**
     * Submits a request.
     *
     * @throws RequestException when it cannot be served, the queue is full, or the engine is ending
     */
    public void submit(Request request) {
        submit(List.of(request));
    }

    /** Ends a request at the next step; an id that is unknown or has ended is ignored. */
    public void cancel(String requestId) {
        if (health.get() instanceof Health.Dead) {
            return; // all requests have ended
        }
        arrivals.cancel(requestId);
        LockSupport.unpark(thread);
    }

    /** Empties the prefix cache: requests that are submitted later hit nothing that was computed before. */
    public void resetPrefixCache() {
        if (health.get() instanceof Health.Dead) {
            return; // nothing will be computed any more
        }
        arrivals.resetPrefixCache();
        LockSupport.unpark(thread);
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
            LOG.log(Level.ERROR, "The engine stopped; all requests fail.", e);
            reason = e.getMessage() == null ? e.toString() : e.getMessage();
        } finally {
            end(reason);
        }
    }

    /** Fails all requests, then closes the executor, even when one of the two throws. */
    private void end(String reason) {
        Health.Dead dead = new Health.Dead(reason);
        health.set(dead);
        arrivals.close();
        try {
            loop.failAll(reason);
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, "Some requests may not have received a failure when the engine stopped.", e);
        }
        ended.completeAsync(
                () -> dead,
                task -> Thread.ofPlatform().daemon().name("engine-ended").start(task));
        try {
            executor.close();
        } catch (RuntimeException | Error e) {
            LOG.log(
                    Level.ERROR,
                    "The executor could not be closed; its memory and threads are freed when the process ends.",
                    e);
        } finally {
            closed.countDown();
        }
    }

    /**
     * Refuses new requests and waits until the accepted ones have ended; false when they did not end in time.
     *
     * @throws IllegalStateException on the engine thread, on which event sinks run
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

    /** Ends the engine thread after its current step and waits for its end. On the engine thread it does not wait. */
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
                thread.join(); // rather than await closed: afterwards the thread is gone
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
