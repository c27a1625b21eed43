package dev.tandem.bench;

import dev.tandem.bench.Workload.Lengths;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadResult;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.loop.EngineLoop;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.TokenSink;
import dev.tandem.engine.schedule.Scheduler;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.PrimitiveIterator;
import java.util.SplittableRandom;

/**
 * Runs the real engine loop and scheduler on a {@link SimulatedExecutor}, so that minutes take seconds.
 *
 * <p>Owned by: the thread that simulates.
 */
public final class SimulatedRun {
    /** How long the engine thread waits before it plans again after an empty plan. */
    private static final long IDLE_NANOS = 1_000_000;

    /**
     * What an open loop measured.
     *
     * @param load what clients experienced
     * @param requests every request that arrived, measured or not, by arrival
     * @param hostTokenFraction fraction of the window's decoded tokens that were attended on the host
     * @param hostBusyFraction fraction of the window in which the CPU attended
     */
    public record OpenLoop(
            LoadResult load, List<RequestTimes> requests, double hostTokenFraction, double hostBusyFraction) {}

    private final EngineConfig config;
    private final Workload workload;
    private int submitted;
    private final SimulatedExecutor executor;
    private final VirtualClock clock;
    private final AdmissionQueue queue;
    private final Recorder recorder = new Recorder();
    private final EngineLoop loop;
    private final SplittableRandom random;
    private int issued;
    private int failed;

    /** An engine loop that has not run yet; {@code executor} and the engine share {@code clock}. */
    public SimulatedRun(
            EngineConfig config,
            Scheduler scheduler,
            SimulatedExecutor executor,
            VirtualClock clock,
            Workload workload) {
        this.config = config;
        this.workload = workload;
        this.executor = executor;
        this.clock = clock;
        this.queue = new AdmissionQueue(config.maxQueuedRequests(), clock);
        this.loop = new EngineLoop(config, queue, scheduler, executor, clock, recorder);
        this.random = new SplittableRandom(config.seed());
    }

    /** As {@link ThroughputRun#whole}, in virtual seconds. */
    public Map<String, Object> whole(int requests) {
        recorder.open();
        for (int i = 0; i < requests; i++) {
            submit(workload.request(issued++));
        }
        while (!loop.isIdle()) {
            loop.step();
        }
        double seconds = clock.nanos() / 1e9;
        Map<String, Object> result = ThroughputRun.describe(recorder.snapshot(), seconds);
        result.put("requests", requests);
        result.put("failed", failed);
        result.put("window", "run");
        result.put("host_busy_fraction", Statistics.rounded(executor.cpuBusySeconds() / seconds));
        return result;
    }

    /** As {@link ThroughputRun#steady}, in virtual seconds; with an equal seed the same requests are in progress. */
    public Map<String, Object> steady(int concurrency, int warmUpSeconds, int seconds) {
        ClosedLoop closed = new ClosedLoop(workload, concurrency, config.seed(), this::submit, message -> {
            failed++;
            return true;
        });
        closed.grow();
        runUntil(warmUpSeconds);
        recorder.open();
        double busyBefore = executor.cpuBusySeconds();
        long start = clock.nanos();
        runUntil(warmUpSeconds + seconds / 2.0);
        double first = recorder.snapshot().outputTokens() / ((clock.nanos() - start) / 1e9);
        runUntil(warmUpSeconds + seconds);
        double all = (clock.nanos() - start) / 1e9;
        Map<String, Object> result = ThroughputRun.steadyWindow(recorder.snapshot(), all, first, workload);
        result.put("requests", concurrency);
        result.put("failed", failed);
        result.put("steps_per_second", Statistics.rounded(recorder.steps() / all));
        result.put("host_busy_fraction", Statistics.rounded((executor.cpuBusySeconds() - busyBefore) / all));
        return result;
    }

    /**
     * Runs an open loop: requests arrive when the load says, however many the engine has. Ends when all measured
     * requests have ended, or when the load's time for that is over.
     */
    public OpenLoop open(Load load) {
        OpenLoopRequests requests = new OpenLoopRequests(load);
        Recorder.Counts counted = recorder.snapshot();
        double busy = 0;
        boolean opened = false;
        boolean closed = false;
        while (!requests.isOver()) {
            requests.submitDue();
            long now = clock.nanos();
            if (!opened && load.window().measures(now)) {
                opened = true;
                recorder.open();
                busy = executor.cpuBusySeconds();
            } else if (opened && !closed && !load.window().measures(now)) {
                closed = true;
                counted = recorder.snapshot();
                busy = executor.cpuBusySeconds() - busy;
            }
            if (!loop.step()) {
                clock.advance(requests.untilNext(loop.isIdle() ? Long.MAX_VALUE : IDLE_NANOS));
            }
        }
        if (!closed) {
            counted = recorder.snapshot();
            busy = executor.cpuBusySeconds() - busy;
        }
        LoadResult result = LoadResult.of(load, requests.all);
        double hostTokenFraction = (double) counted.hostTokens() / Math.max(1, counted.decodeTokens());
        return new OpenLoop(result, List.copyOf(requests.all), hostTokenFraction, busy / result.seconds());
    }

    /** The requests of an open loop, and what they experience. */
    private final class OpenLoopRequests {
        private final Load load;
        private final PrimitiveIterator.OfLong times;
        private final List<RequestTimes> all = new ArrayList<>();
        /** When the next request arrives; {@code Long.MAX_VALUE} after the last. */
        private long next;

        private long lastArrival;
        /** Measured requests that have not ended. */
        private int open;

        OpenLoopRequests(Load load) {
            this.load = load;
            this.times = load.arrivals().times(load.seed());
            this.next = following();
        }

        private long following() {
            if (!times.hasNext()) {
                return Long.MAX_VALUE;
            }
            long time = times.nextLong();
            return load.window().admits(time, all.size()) ? time : Long.MAX_VALUE;
        }

        void submitDue() {
            while (next <= clock.nanos()) {
                Lengths lengths = workload.request(issued++);
                RequestTimes request = new RequestTimes(next, lengths.prompt());
                all.add(request);
                lastArrival = next;
                open += isMeasured(request) ? 1 : 0;
                try {
                    submit(lengths, event -> record(request, event));
                } catch (RequestException e) {
                    fail(request, "refused", String.valueOf(e.getMessage()));
                }
                next = following();
            }
        }

        private void record(RequestTimes request, TokenEvent event) {
            switch (event) {
                case TokenEvent.Token token -> request.receive(clock.nanos(), 1);
                case TokenEvent.Finished finished -> {
                    request.end(clock.nanos());
                    open -= isMeasured(request) ? 1 : 0;
                }
                case TokenEvent.Failed failed -> fail(request, "failed", failed.message());
            }
        }

        private void fail(RequestTimes request, String kind, String message) {
            request.fail(clock.nanos(), kind, message);
            open -= isMeasured(request) ? 1 : 0;
        }

        private boolean isMeasured(RequestTimes request) {
            return load.window().measures(request.arrival());
        }

        /** Time to the next arrival, or {@code max} if that is less; at least 1 ns, so that the clock moves. */
        long untilNext(long max) {
            return next == Long.MAX_VALUE && max == Long.MAX_VALUE
                    ? IDLE_NANOS
                    : Math.max(1, Math.min(max, next - clock.nanos()));
        }

        boolean isOver() {
            return next == Long.MAX_VALUE
                    && (open == 0 || clock.nanos() > lastArrival + load.window().drainNanos());
        }
    }

    private void runUntil(double seconds) {
        while (clock.nanos() < seconds * 1e9) {
            if (!loop.step() && loop.isIdle()) {
                throw new IllegalStateException("nothing is left to simulate after " + clock.nanos() / 1e9 + " s");
            }
        }
    }

    private void submit(Lengths lengths) {
        submit(lengths, event -> {
            switch (event) {
                case TokenEvent.Token token -> {}
                case TokenEvent.Finished finished -> {}
                case TokenEvent.Failed reason -> failed++;
            }
        });
    }

    private void submit(Lengths lengths, TokenSink sink) {
        int context = config.contextTokens();
        int prompt = Math.min(lengths.prompt(), context - 1);
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0)
                .maxTokens(Math.max(1, Math.min(lengths.output(), context - prompt)))
                .ignoreEos(true)
                .build();
        String id = "sim-" + issued + "-" + random.nextLong();
        int[] tokens = new int[prompt];
        // no two prompts agree beyond what the workload has them share
        Arrays.fill(tokens, Math.min(workload.sharedPrompt(), prompt - 1), prompt, ++submitted);
        queue.offer(List.of(new Request(id, tokens, sampling, 0, TextDecoder.none(), sink)));
    }
}
