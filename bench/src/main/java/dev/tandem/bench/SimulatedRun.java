package dev.tandem.bench;

import dev.tandem.bench.Workload.Lengths;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadResult;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.kv.KvEventSink;
import dev.tandem.engine.kv.PrefixCacheUse;
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
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.PrimitiveIterator;
import java.util.PriorityQueue;
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
     * @param prefixCache what all requests found in the prefix cache
     */
    public record OpenLoop(
            LoadResult load,
            List<RequestTimes> requests,
            double hostTokenFraction,
            double hostBusyFraction,
            PrefixCacheUse prefixCache) {}

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
        this(config, scheduler, executor, clock, workload, KvEventSink.NONE);
    }

    /**
     * As the other constructor.
     *
     * @param kvEvents receives the changes of the prefix cache
     */
    public SimulatedRun(
            EngineConfig config,
            Scheduler scheduler,
            SimulatedExecutor executor,
            VirtualClock clock,
            Workload workload,
            KvEventSink kvEvents) {
        this.config = config;
        this.workload = workload;
        this.executor = executor;
        this.clock = clock;
        this.queue = new AdmissionQueue(config.maxQueuedRequests(), clock);
        this.loop = new EngineLoop(config, queue, scheduler, executor, clock, recorder, kvEvents);
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
    public Map<String, Object> steady(FirstRequests first, int warmUpSeconds, int seconds) {
        ClosedLoop closed = new ClosedLoop(workload, first, config.seed(), this::submit, message -> {
            failed++;
            return true;
        });
        closed.grow();
        runUntil(warmUpSeconds);
        closed.warmedUp();
        recorder.open();
        double busyBefore = executor.cpuBusySeconds();
        long start = clock.nanos();
        runUntil(warmUpSeconds + seconds / 2.0);
        double firstRate = recorder.snapshot().outputTokens() / ((clock.nanos() - start) / 1e9);
        runUntil(warmUpSeconds + seconds);
        double all = (clock.nanos() - start) / 1e9;
        Map<String, Object> result = ThroughputRun.steadyWindow(recorder.snapshot(), all, firstRate, workload);
        result.put("requests", first.count());
        result.put("in_progress", first.inProgress());
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
        return new OpenLoop(
                result,
                List.copyOf(requests.all),
                hostTokenFraction,
                busy / result.seconds(),
                loop.stats().prefixCache());
    }

    /** A request of an open loop: a conversation's turn, counted from 0. */
    private record Turn(long arrival, int conversation, int number) {}

    /** The requests of an open loop, and what they experience. */
    private final class OpenLoopRequests {
        private final Load load;
        private final PrimitiveIterator.OfLong times;
        private final List<RequestTimes> all = new ArrayList<>();
        /** Turns of conversations that have begun. */
        private final PriorityQueue<Turn> turns = new PriorityQueue<>(Comparator.comparingLong(Turn::arrival));

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
            return load.window().admits(time, all.size() + turns.size()) ? time : Long.MAX_VALUE;
        }

        void submitDue() {
            while (nextArrival() <= clock.nanos()) {
                if (next <= nextTurn()) {
                    submit(new Turn(next, issued++, 0));
                    next = following();
                } else {
                    submit(turns.remove());
                }
            }
        }

        private void submit(Turn turn) {
            Lengths lengths = workload.turn(turn.conversation(), turn.number());
            RequestTimes request = new RequestTimes(turn.arrival(), lengths.prompt());
            all.add(request);
            lastArrival = turn.arrival();
            open += isMeasured(request) ? 1 : 0;
            try {
                SimulatedRun.this.submit(turn, lengths, event -> record(turn, request, event));
            } catch (RequestException e) {
                fail(request, "refused", String.valueOf(e.getMessage()));
            }
        }

        private void record(Turn turn, RequestTimes request, TokenEvent event) {
            switch (event) {
                case TokenEvent.Token token -> request.receive(clock.nanos(), 1);
                case TokenEvent.Finished finished -> {
                    request.end(clock.nanos());
                    open -= isMeasured(request) ? 1 : 0;
                    think(turn);
                }
                case TokenEvent.Failed failed -> fail(request, "failed", failed.message());
            }
        }

        /** Has the next turn of a conversation arrive later, unless arrivals will have ended by then. */
        private void think(Turn ended) {
            int number = ended.number() + 1;
            long arrival = clock.nanos() + load.thinkNanos(ended.conversation(), number);
            int before = all.size() + turns.size() + (next == Long.MAX_VALUE ? 0 : 1);
            if (number < workload.turns() && load.window().admits(arrival, before)) {
                turns.add(new Turn(arrival, ended.conversation(), number));
            }
        }

        private long nextTurn() {
            return turns.isEmpty() ? Long.MAX_VALUE : turns.element().arrival();
        }

        private long nextArrival() {
            return Math.min(next, nextTurn());
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
            return nextArrival() == Long.MAX_VALUE && max == Long.MAX_VALUE
                    ? IDLE_NANOS
                    : Math.max(1, Math.min(max, nextArrival() - clock.nanos()));
        }

        boolean isOver() {
            return nextArrival() == Long.MAX_VALUE
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
        submit(new Turn(clock.nanos(), submitted, 0), lengths, sink);
    }

    private void submit(Turn turn, Lengths lengths, TokenSink sink) {
        submitted++;
        int context = config.contextTokens();
        int prompt = Math.min(lengths.prompt(), context - 1);
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0)
                .maxTokens(Math.max(1, Math.min(lengths.output(), context - prompt)))
                .ignoreEos(true)
                .build();
        String id = "sim-" + issued + "-" + random.nextLong();
        int[] tokens = new int[prompt];
        fill(tokens, turn);
        queue.offer(List.of(new Request(id, tokens, sampling, 0, TextDecoder.none(), sink)));
    }

    /**
     * Writes a prompt: what all share, then each turn's own tokens, with the answers between them. No two prompts agree
     * beyond what the workload has them share.
     */
    private void fill(int[] tokens, Turn turn) {
        Lengths first = workload.turn(turn.conversation(), 0);
        int own = Math.max(1, first.prompt() - workload.sharedPrompt());
        int at = Math.min(workload.sharedPrompt(), tokens.length - 1);
        for (int number = 0; number <= turn.number(); number++) {
            int answer = Math.min(at + own, tokens.length);
            Arrays.fill(tokens, at, answer, 1 + turn.conversation() * workload.turns() + number);
            at = Math.min(answer + first.output(), tokens.length);
            Arrays.fill(tokens, answer, number < turn.number() ? at : answer, SimulatedExecutor.SAMPLED_TOKEN);
        }
    }
}
