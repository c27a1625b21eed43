package dev.tandem.app;

import dev.tandem.bench.ideal.Bounds;
import dev.tandem.bench.ideal.Ideal;
import dev.tandem.bench.ideal.IdealFields;
import dev.tandem.bench.ideal.Lengths;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Usage;
import java.util.concurrent.Executor;

/**
 * The ideal of this machine for the requests of a server: at first for requests of a usual length, then for the mean of
 * those that have ended. The start summary, the metrics and the log lines of the guard have their ideal from here.
 *
 * <p>Owned by: thread-safe. Solving takes some 10 ms, so that it runs on a thread of its own.
 */
final class ServedIdeal implements EngineListener {
    /** Tokens of the requests that the start assumes, where the GPU pool holds two of them. */
    private static final int PROMPT = 1000;

    private static final int OUTPUT = 400;
    /** Requests over which the means are taken. */
    private static final int HORIZON = 1000;
    /** Requests before the first mean counts: the first to end are the shortest. */
    static final int MIN_REQUESTS = 64;
    /** Factor by which a mean length must change for the ideal to be solved again; not chosen by an experiment. */
    private static final double MIN_CHANGE = 1.25;

    private final Profile profile;
    private final ExecutorLimits limits;
    private final Bounds bounds;
    private final Executor solver;
    /** Of the present ideal, or the one that is being solved. */
    private Lengths lengths;

    private volatile Ideal ideal;
    private boolean isSolving;
    private long requests;
    private double prompt;
    private double output;

    /**
     * Solves the ideal for requests of a usual length.
     *
     * @param limits of the executor, with the memory of both tiers
     * @param bounds of a step, and of the time per token
     * @param solver runs later solutions
     */
    ServedIdeal(Profile profile, ExecutorLimits limits, Bounds bounds, Executor solver) {
        this.profile = profile;
        this.limits = limits;
        this.bounds = bounds;
        this.solver = solver;
        double pool = (double) limits.gpuBlocks() * limits.blockTokens();
        double scale = Math.min(1, pool / 2 / limits.span().meanTokens(PROMPT, PROMPT + OUTPUT));
        this.lengths = Lengths.divisible(Math.ceil(scale * PROMPT), Math.ceil(scale * OUTPUT), 0);
        this.ideal = solve(lengths);
    }

    private Ideal solve(Lengths of) {
        double hostBytes = (double) limits.hostBlocks() * limits.hostBlockTokens() * limits.kvBytesPerToken();
        return ProfileIdeal.of(profile, limits, hostBytes, bounds, of);
    }

    /** One line: what offloading brings at best, and for which requests. */
    synchronized String line() {
        String within = bounds.maxTokenSeconds() < Double.POSITIVE_INFINITY
                ? ", %.0f ms a token".formatted(1e3 * bounds.maxTokenSeconds())
                : "";
        return IdealFields.line(
                ideal, "%.0f prompt and %.0f output tokens".formatted(lengths.prompt(), lengths.output()) + within);
    }

    /** Throughput of the best schedule over that of the GPU alone; NaN where the GPU alone holds no request. */
    double ratio() {
        return ideal.ratio().orElse(Double.NaN);
    }

    @Override
    public void finished(Request request, FinishReason reason, Usage usage) {
        if (usage.completionTokens() > 0 && count(usage)) {
            solver.execute(this::solveAgain);
        }
    }

    /** Counts a request. Returns whether the ideal must be solved again. */
    private synchronized boolean count(Usage usage) {
        double newest = 1.0 / Math.min(++requests, HORIZON);
        prompt += newest * (usage.promptTokens() - prompt);
        output += newest * (usage.completionTokens() - output);
        if (isSolving
                || requests < MIN_REQUESTS
                || !changed(prompt, lengths.prompt()) && !changed(output, lengths.output())) {
            return false;
        }
        lengths = Lengths.divisible(prompt, output, 0);
        isSolving = true;
        return true;
    }

    private static boolean changed(double mean, double solved) {
        return Math.max(mean / solved, solved / mean) > MIN_CHANGE;
    }

    private void solveAgain() {
        Lengths of;
        synchronized (this) {
            of = lengths;
        }
        try {
            ideal = solve(of);
        } finally {
            synchronized (this) {
                isSolving = false;
            }
        }
    }
}
