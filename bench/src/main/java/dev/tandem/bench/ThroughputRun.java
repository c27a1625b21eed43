package dev.tandem.bench;

import dev.tandem.bench.Workload.Lengths;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.TokenSink;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Measures an engine offline, without HTTP. {@link #whole} runs a number of requests that all arrive at time 0.
 * {@link #steady} measures a window in which each request that finishes is replaced.
 *
 * <p>Owned by: the thread that measures.
 */
public final class ThroughputRun {
    /** Receives the progress of a run. */
    public interface Progress {
        /** {@code done} of {@code total} of the phase {@code what} are done; called from any thread. */
        void at(String what, long done, long total);
    }

    private final Engine engine;
    private final Recorder recorder;
    private final Clock clock;
    private final Workload workload;
    private final long seed;
    private final RandomRequests source;
    private final Progress progress;
    /** The first failure of a request; null while there is none. */
    private final AtomicReference<@Nullable String> failure = new AtomicReference<>();

    /**
     * A run of an engine that has started.
     *
     * @param recorder must be a listener of the engine
     */
    public ThroughputRun(
            Engine engine, Recorder recorder, Clock clock, Workload workload, long seed, Progress progress) {
        this.engine = engine;
        this.recorder = recorder;
        this.clock = clock;
        this.workload = workload;
        this.seed = seed;
        this.source = RandomRequests.of(engine, "bench", workload, seed);
        this.progress = progress;
    }

    /** Runs a few short requests, so that JIT compilation and page faults are not measured. */
    public void warmUp(int requests, int prompt, int output) throws InterruptedException {
        CountDownLatch done = new CountDownLatch(requests);
        for (int i = 0; i < requests; i++) {
            submit(new Lengths(prompt, output), done::countDown);
        }
        done.await();
    }

    /** Submits all requests at time 0 and waits until the last has finished; returns the result's fields. */
    public Map<String, Object> whole(int requests) throws InterruptedException {
        recorder.open();
        long start = clock.nanos();
        CountDownLatch done = new CountDownLatch(requests);
        for (int i = 0; i < requests; i++) {
            submit(workload.request(i), () -> {
                done.countDown();
                progress.at("requests", requests - done.getCount(), requests);
            });
        }
        done.await();
        double seconds = (clock.nanos() - start) / 1e9;
        throwIfFailed();
        Map<String, Object> result = describe(recorder.snapshot(), seconds);
        result.put("cut_to_context", source.cut());
        result.put("requests", requests);
        result.put("window", "run");
        return result;
    }

    /**
     * Runs a {@link ClosedLoop} that begins with {@code first}, and counts for {@code seconds} after
     * {@code warmUpSeconds}. Returns the result's fields.
     */
    public Map<String, Object> steady(FirstRequests first, int warmUpSeconds, int seconds) throws InterruptedException {
        ClosedLoop loop = new ClosedLoop(workload, first, seed, this::submit, message -> {
            failure.compareAndSet(null, message);
            return false; // replacements would fail as well, without end
        });
        loop.grow();
        sleep("warming up", warmUpSeconds);
        loop.warmedUp();
        recorder.open();
        long start = clock.nanos();
        sleep("first half", seconds / 2);
        long firstHalf = recorder.snapshot().outputTokens();
        double firstRate = firstHalf / ((clock.nanos() - start) / 1e9);
        // a run that is ended from outside has at least said this
        sleep(String.format(Locale.ROOT, "second half, after %.0f output tokens/s", firstRate), seconds - seconds / 2);
        Recorder.Counts counts = recorder.snapshot();
        double all = (clock.nanos() - start) / 1e9;
        loop.stop();
        throwIfFailed();
        Map<String, Object> result = steadyWindow(counts, all, firstRate, workload);
        result.put("cut_to_context", source.cut());
        result.put("requests", first.count());
        result.put("in_progress", first.inProgress());
        return result;
    }

    /**
     * Returns the result's fields for a steady window.
     *
     * @param firstRate output tokens per second in the first half
     */
    static Map<String, Object> steadyWindow(
            Recorder.Counts counts, double seconds, double firstRate, Workload workload) {
        Map<String, Object> result = describe(counts, seconds);
        double second = 2 * counts.outputTokens() / seconds - firstRate;
        result.put("window", "steady");
        // "by output" alone added such requests in the window, too; earlier windows drew each equally often
        result.put("first_requests", "by output, until the window");
        Statistics.put(result, "window_tpot", counts.perTokenSinceOpening());
        result.put("drift_between_halves", Statistics.rounded(second / firstRate - 1));
        double balance = (double) counts.prefillTokens() / Math.max(1, counts.outputTokens());
        result.put("prefill_balance", Statistics.rounded(balance / workload.promptFraction()));
        return result;
    }

    private void sleep(String what, int seconds) throws InterruptedException {
        for (int i = 0; i < seconds && failure.get() == null; i++) {
            progress.at(what + " (s)", i, seconds);
            Thread.sleep(1000);
        }
        progress.at(what + " (s)", seconds, seconds);
    }

    /** Submits a request, and runs {@code end} when it has ended. */
    private void submit(Lengths lengths, Runnable end) {
        submit(lengths, event -> {
            switch (event) {
                case TokenEvent.Token token -> {}
                case TokenEvent.Finished finished -> end.run();
                case TokenEvent.Failed failed -> {
                    failure.compareAndSet(null, failed.message());
                    end.run();
                }
            }
        });
    }

    private void submit(Lengths lengths, TokenSink sink) {
        engine.submit(source.request(lengths, sink));
    }

    private void throwIfFailed() {
        String message = failure.get();
        if (message != null) {
            throw new ExecutorException("the run failed: " + message);
        }
    }

    /**
     * Returns the totals under vLLM's names. These count each prompt once, when its request has finished. The field
     * {@code computed_prefill_tokens} also counts prompts that were computed again after a preemption.
     */
    static Map<String, Object> describe(Recorder.Counts counts, double seconds) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("duration", Statistics.rounded(seconds));
        result.put("completed", counts.finished());
        result.put("total_input_tokens", counts.promptTokens());
        result.put("total_output_tokens", counts.outputTokens());
        result.put("requests_per_second", Statistics.rounded(counts.finished() / seconds));
        result.put("output_tokens_per_second", Statistics.rounded(counts.outputTokens() / seconds));
        result.put(
                "total_tokens_per_second",
                Statistics.rounded((counts.promptTokens() + counts.outputTokens()) / seconds));
        result.put("computed_prefill_tokens", counts.prefillTokens());
        result.put(
                "host_token_fraction",
                Statistics.rounded((double) counts.hostTokens() / Math.max(1, counts.decodeTokens())));
        result.put("host_wait_fraction", Statistics.rounded(counts.hostWaitNanos() / 1e9 / seconds));
        Statistics.put(result, "ttft", counts.firstToken());
        Statistics.put(result, "tpot", counts.perToken());
        Statistics.put(result, "itl", counts.interToken());
        Statistics.put(result, "e2el", counts.endToEnd());
        return result;
    }
}
