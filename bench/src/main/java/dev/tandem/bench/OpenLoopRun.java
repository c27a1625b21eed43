package dev.tandem.bench;

import dev.tandem.bench.Workload.Lengths;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadResult;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.TokenEvent;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.PrimitiveIterator;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Runs an open loop in the engine's own process, without HTTP: requests are submitted when the load says, however many
 * the engine has. Latencies count from the intended arrival, so that a late submission hides no waiting.
 *
 * <p>Owned by: the thread that calls {@link #run}.
 */
public final class OpenLoopRun {
    /**
     * What an open loop measured.
     *
     * @param load what the requests experienced
     * @param requests every request that arrived, measured or not, by arrival
     * @param hostTokenFraction fraction of the window's decoded tokens that were attended on the host
     * @param cut requests that were shortened to fit the context
     */
    public record Result(LoadResult load, List<RequestTimes> requests, double hostTokenFraction, int cut) {}

    private final Consumer<Request> engine;
    private final RandomRequests requests;
    private final Recorder recorder;
    private final WaitingClock clock;
    private final Workload workload;
    private final ThroughputRun.Progress progress;

    /**
     * A loop over an engine that has started.
     *
     * @param name with which the ids of the requests begin; it differs from that of all loops before on this engine
     * @param recorder must be a listener of the engine
     * @param seed of the prompts' tokens
     * @param progress receives the number of requests that have ended, on the engine's thread
     * @throws dev.tandem.engine.config.ConfigurationException when the workload has conversations of several turns
     */
    public OpenLoopRun(
            Engine engine,
            String name,
            Recorder recorder,
            WaitingClock clock,
            Workload workload,
            long seed,
            ThroughputRun.Progress progress) {
        this(
                engine::submit,
                RandomRequests.of(engine, name, workload, seed),
                recorder,
                clock,
                workload.ofSingleRequests("bench serve has them"),
                progress);
    }

    /** @param engine receives each request; what it throws as {@link RequestException} is a refusal */
    OpenLoopRun(
            Consumer<Request> engine,
            RandomRequests requests,
            Recorder recorder,
            WaitingClock clock,
            Workload workload,
            ThroughputRun.Progress progress) {
        this.engine = engine;
        this.requests = requests;
        this.recorder = recorder;
        this.clock = clock;
        this.workload = workload;
        this.progress = progress;
    }

    /**
     * Runs the load until every request has ended.
     *
     * @throws ExecutorException when a request is refused or fails, after which none is submitted, or when one has not
     *     ended in the load's time for that
     */
    public Result run(Load load) throws InterruptedException {
        return new Loop(load).run();
    }

    /** One run. */
    private final class Loop {
        private final Load load;
        private final LoadWindow window;
        private final long origin = clock.nanos();
        private final List<RequestTimes> all = new ArrayList<>();
        private final Semaphore ended = new Semaphore(0);
        /** What became of the first request that failed; null while none has. */
        private final AtomicReference<@Nullable String> failure = new AtomicReference<>();

        /** Whether the window has begun; guarded by this. */
        private boolean opened;
        /** What was counted in the window; guarded by this. */
        private Optional<Recorder.Counts> counted = Optional.empty();

        Loop(Load load) {
            this.load = load;
            this.window = load.window();
        }

        private long now() {
            return clock.nanos() - origin;
        }

        Result run() throws InterruptedException {
            PrimitiveIterator.OfLong times = load.arrivals().times(load.seed());
            long last = 0;
            while (times.hasNext() && failure.get() == null) {
                long arrival = times.nextLong();
                if (!window.admits(arrival, all.size())) {
                    break;
                }
                submit(arrival);
                last = arrival;
            }
            if (!ended.tryAcquire(all.size(), last + window.drainNanos() - now(), TimeUnit.NANOSECONDS)) {
                throw new ExecutorException(all.size() - ended.availablePermits() + " of " + all.size()
                        + " requests had not ended " + window.drainNanos() / 1e9 + " s after the last arrival");
            }
            String failed = failure.get();
            if (failed != null) {
                throw new ExecutorException("the run failed: " + failed);
            }
            Recorder.Counts counts = counts();
            return new Result(
                    LoadResult.of(load, all),
                    List.copyOf(all),
                    (double) counts.hostTokens() / Math.max(1, counts.decodeTokens()),
                    requests.cut());
        }

        private void submit(long arrival) throws InterruptedException {
            Lengths lengths = workload.request(all.size());
            RequestTimes request = new RequestTimes(arrival, lengths.prompt());
            // made before its arrival, which drawing the tokens would delay
            Request made = requests.request(lengths, event -> record(request, event));
            clock.awaitUntil(origin + arrival);
            if (window.measures(arrival)) {
                open();
            }
            all.add(request);
            request.ready(now());
            request.sent(now());
            try {
                engine.accept(made);
            } catch (RequestException e) {
                fail(request, "was refused", String.valueOf(e.getMessage()));
            }
        }

        /** Receives an event of a request, on the engine's thread. */
        private void record(RequestTimes request, TokenEvent event) {
            closeIfOver();
            switch (event) {
                case TokenEvent.Token _ -> request.receive(now(), 1);
                case TokenEvent.Finished _ -> {
                    request.end(now());
                    ended.release();
                    progress.at("requests that have ended", ended.availablePermits(), 0);
                }
                case TokenEvent.Failed failed -> fail(request, "failed", failed.message());
            }
        }

        private void fail(RequestTimes request, String kind, String message) {
            request.fail(now(), kind, message);
            failure.compareAndSet(null, "a request " + kind + ": " + message);
            ended.release();
        }

        private synchronized void open() {
            if (!opened) {
                opened = true;
                recorder.open();
            }
        }

        private synchronized void closeIfOver() {
            if (opened && counted.isEmpty() && !window.measures(now())) {
                counted = Optional.of(recorder.snapshot());
            }
        }

        private synchronized Recorder.Counts counts() {
            return counted.orElseGet(recorder::snapshot);
        }
    }
}
