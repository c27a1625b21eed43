package dev.tandem.bench;

import dev.tandem.bench.Workload.Lengths;
import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.loop.EngineLoop;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.schedule.Scheduler;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * Runs the real engine loop and scheduler on a {@link SimulatedExecutor}, so that minutes take seconds.
 *
 * <p>Owned by: the thread that simulates.
 */
public final class SimulatedRun {
    private final EngineConfig config;
    private final Workload workload;
    private final SimulatedExecutor executor;
    private final VirtualClock clock;
    private final AdmissionQueue queue;
    private final Recorder recorder = new Recorder();
    private final EngineLoop loop;
    private final SplittableRandom random;
    private int issued;
    private int failed;
    /** Whether each request that ends is replaced by another. */
    private boolean replacing;

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
        result.put("host_busy_share", Statistics.rounded(executor.cpuBusySeconds() / seconds));
        return result;
    }

    /** As {@link ThroughputRun#steady}, in virtual seconds. */
    public Map<String, Object> steady(int concurrency, int warmUpSeconds, int seconds) {
        replacing = true;
        for (int i = 0; i < concurrency; i++) {
            Lengths full = workload.request(issued++);
            int done = (int) (random.nextDouble() * full.output());
            submit(new Lengths(full.prompt() + done, full.output() - done));
        }
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
        result.put("host_busy_share", Statistics.rounded((executor.cpuBusySeconds() - busyBefore) / all));
        return result;
    }

    private void runUntil(double seconds) {
        while (clock.nanos() < seconds * 1e9) {
            if (!loop.step() && loop.isIdle()) {
                throw new IllegalStateException("nothing is left to simulate after " + clock.nanos() / 1e9 + " s");
            }
        }
    }

    private void submit(Lengths lengths) {
        int context = config.contextTokens();
        int prompt = Math.min(lengths.prompt(), context - 1);
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0)
                .maxTokens(Math.max(1, Math.min(lengths.output(), context - prompt)))
                .ignoreEos(true)
                .build();
        queue.offer(List.of(new Request(
                "sim-" + issued + "-" + random.nextLong(), new int[prompt], sampling, 0, TextDecoder.none(), event -> {
                    switch (event) {
                        case TokenEvent.Token token -> {}
                        case TokenEvent.Finished finished -> replace();
                        case TokenEvent.Failed reason -> {
                            failed++;
                            replace();
                        }
                    }
                })));
    }

    private void replace() {
        if (replacing) {
            submit(workload.request(issued++));
        }
    }
}
