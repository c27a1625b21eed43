package dev.tandem.bench;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Usage;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * Counts tokens and records latencies from the moment it is opened. Latencies are in milliseconds.
 *
 * <p>Owned by: engine thread, which counts; {@link #open} and {@link #snapshot} may be called from any thread.
 */
public final class Recorder implements EngineListener {
    /**
     * What was counted since {@link #open}.
     *
     * @param finished requests that have finished
     * @param promptTokens prompt tokens of the finished requests
     * @param outputTokens tokens that requests received
     * @param hostTokens decoded tokens whose KV was read from host blocks
     * @param prefillTokens prompt tokens that steps computed, recomputation included
     * @param decodeTokens tokens that steps decoded
     * @param hostWaitNanos time that the GPU waited for the CPU's attention
     * @param firstToken time to first token of each request, in ms
     * @param interToken time between two tokens, in ms
     * @param perToken mean time per output token after the first, of each finished request, in ms
     * @param perTokenSinceOpening mean time per output token since the opening, of each request that had 64 tokens or
     *     more since then, finished or not, in ms
     * @param endToEnd time from arrival to end, of each finished request, in ms
     */
    public record Counts(
            int finished,
            long promptTokens,
            long outputTokens,
            long hostTokens,
            long prefillTokens,
            long decodeTokens,
            long hostWaitNanos,
            double[] firstToken,
            double[] interToken,
            double[] perToken,
            double[] perTokenSinceOpening,
            double[] endToEnd) {}

    /** Min tokens of a request since the opening before its mean time counts: some seconds of decoding. */
    private static final int MIN_TOKENS = 64;

    private int finished;
    private long steps;
    private long promptTokens;
    private long outputTokens;
    private long hostTokens;
    private long prefillTokens;
    private long decodeTokens;
    private long hostWaitNanos;
    private final Samples firstToken = new Samples();
    private final Samples interToken = new Samples();
    private final Samples perToken = new Samples();
    private final Samples endToEnd = new Samples();
    /** Tokens of each request since the opening, by its id. */
    private final Map<String, Tokens> sinceOpening = new HashMap<>();

    /** Tokens after the first of a request, since the opening. */
    private static final class Tokens {
        private int count;
        private long nanos;

        double meanMillis() {
            return nanos / 1e6 / count;
        }
    }

    private static final class Samples {
        private double[] values = new double[1024];
        private int count;

        void add(double value) {
            if (count == values.length) {
                values = Arrays.copyOf(values, count * 2);
            }
            values[count++] = value;
        }

        double[] toArray() {
            return Arrays.copyOf(values, count);
        }
    }

    /** Sets all counts to zero and forgets all latencies. */
    public synchronized void open() {
        finished = 0;
        steps = 0;
        promptTokens = 0;
        outputTokens = 0;
        hostTokens = 0;
        prefillTokens = 0;
        decodeTokens = 0;
        hostWaitNanos = 0;
        firstToken.count = 0;
        interToken.count = 0;
        perToken.count = 0;
        endToEnd.count = 0;
        sinceOpening.clear();
    }

    /** Steps since {@link #open}. */
    public synchronized long steps() {
        return steps;
    }

    /** Returns a copy of what was counted since {@link #open}. */
    public synchronized Counts snapshot() {
        return new Counts(
                finished,
                promptTokens,
                outputTokens,
                hostTokens,
                prefillTokens,
                decodeTokens,
                hostWaitNanos,
                firstToken.toArray(),
                interToken.toArray(),
                perToken.toArray(),
                sinceOpening.values().stream()
                        .filter(tokens -> tokens.count >= MIN_TOKENS)
                        .mapToDouble(Tokens::meanMillis)
                        .toArray(),
                endToEnd.toArray());
    }

    @Override
    public synchronized void step(StepRecord record) {
        steps++;
        prefillTokens += record.tokens().prefill();
        decodeTokens += record.tokens().decode();
        hostTokens += record.tokens().host();
        hostWaitNanos += record.times().hostWait();
    }

    @Override
    public synchronized void firstToken(Request request, long sinceArrival) {
        outputTokens++;
        firstToken.add(sinceArrival / 1e6);
    }

    @Override
    public synchronized void nextToken(Request request, long sincePrevious) {
        outputTokens++;
        interToken.add(sincePrevious / 1e6);
        Tokens tokens = sinceOpening.computeIfAbsent(request.id(), ignored -> new Tokens());
        tokens.count++;
        tokens.nanos += sincePrevious;
    }

    @Override
    public synchronized void finished(Request request, FinishReason reason, Usage usage) {
        finished++;
        promptTokens += usage.promptTokens();
        endToEnd.add(usage.total() / 1e6);
        if (usage.completionTokens() > 1) {
            perToken.add((usage.total() - usage.timeToFirstToken()) / 1e6 / (usage.completionTokens() - 1));
        }
    }
}
