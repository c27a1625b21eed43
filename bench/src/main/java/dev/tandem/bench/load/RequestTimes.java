package dev.tandem.bench.load;

import java.util.Arrays;
import java.util.OptionalLong;

/**
 * What one request experienced. All times are nanoseconds since the start of the load; latencies count from the
 * intended arrival, so that a load generator that sends late does not hide waiting (coordinated omission).
 *
 * <p>Owned by: the thread that receives the request's tokens; others read it once the request has ended.
 */
public final class RequestTimes {
    /** How a request ended. */
    public sealed interface Outcome {
        /** The answer is complete. */
        record Ended() implements Outcome {}

        /**
         * The request failed.
         *
         * @param kind what errors are counted by, as {@code HTTP 503}
         * @param message what the server or the connection said
         */
        record Failed(String kind, String message) implements Outcome {}

        /** The run stopped before the request ended. */
        record Unfinished() implements Outcome {}
    }

    private static final int FIRST_CAPACITY = 16;

    private final long arrival;
    private int promptTokens;
    private long ready;
    private long sent;
    private long[] pieces = new long[FIRST_CAPACITY];
    private int count;
    private int outputTokens;
    private boolean reported;
    private long ended;
    private Outcome outcome = new Outcome.Unfinished();

    /**
     * A request that has not been sent.
     *
     * @param arrival when it was to be sent
     */
    public RequestTimes(long arrival, int promptTokens) {
        this.arrival = arrival;
        this.ready = arrival;
        this.sent = arrival;
        this.promptTokens = promptTokens;
    }

    /** Records when the load generator came to this request; later than its arrival when the generator is too slow. */
    public void ready(long now) {
        ready = now;
    }

    /** Records when the request was sent; later than {@link #ready} when a limit of concurrent requests held it. */
    public void sent(long now) {
        sent = now;
    }

    /** Records a piece of the answer with a number of tokens. */
    public void receive(long now, int tokens) {
        if (count == pieces.length) {
            pieces = Arrays.copyOf(pieces, 2 * count);
        }
        pieces[count++] = now;
        outputTokens += tokens;
    }

    /** Replaces the numbers of tokens by those that the server reports. */
    public void report(int prompt, int output) {
        promptTokens = prompt;
        outputTokens = output;
        reported = true;
    }

    /** Records the end of a complete answer. */
    public void end(long now) {
        ended = now;
        outcome = new Outcome.Ended();
    }

    /** Records a failure. */
    public void fail(long now, String kind, String message) {
        ended = now;
        outcome = new Outcome.Failed(kind, message);
    }

    public long arrival() {
        return arrival;
    }

    /** Time by which the load generator came to this request later than it arrived. */
    public long sendDelay() {
        return ready - arrival;
    }

    /** Whether the numbers of tokens are the server's; otherwise each piece counts as one token. */
    public boolean isReported() {
        return reported;
    }

    public long sentAt() {
        return sent;
    }

    /** When the request ended or failed; only of a request that did. */
    public long endedAt() {
        return ended;
    }

    public Outcome outcome() {
        return outcome;
    }

    public int promptTokens() {
        return promptTokens;
    }

    public int outputTokens() {
        return outputTokens;
    }

    /** Times of the pieces of the answer. */
    public long[] pieces() {
        return Arrays.copyOf(pieces, count);
    }

    /** A latency of this request; empty where it has none, and for {@link Metric#ITL}, of which it has many. */
    public OptionalLong nanos(Metric metric) {
        boolean complete = outcome instanceof Outcome.Ended;
        return switch (metric) {
            case TTFT -> count > 0 ? OptionalLong.of(pieces[0] - arrival) : OptionalLong.empty();
            case TPOT ->
                complete && outputTokens > 1 && count > 0
                        ? OptionalLong.of((pieces[count - 1] - pieces[0]) / (outputTokens - 1))
                        : OptionalLong.empty();
            case ITL -> OptionalLong.empty();
            case E2EL -> complete && count > 0 ? OptionalLong.of(pieces[count - 1] - arrival) : OptionalLong.empty();
            case LATENCY_PER_TOKEN ->
                complete && count > 0 && outputTokens > 0
                        ? OptionalLong.of((pieces[count - 1] - arrival) / outputTokens)
                        : OptionalLong.empty();
        };
    }
}
