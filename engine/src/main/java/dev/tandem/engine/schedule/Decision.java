package dev.tandem.engine.schedule;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Why a step is as it is: the candidates with their predicted times, the one chosen, and the reason in words, which are
 * put together only when somebody reads them.
 *
 * <p>Owned by: engine thread until {@link DecisionLog#add}; unchanged from then on.
 */
public final class Decision {
    /**
     * @param seconds predicted
     * @param requests x of NEO §3.2: what the step would bring
     */
    public record Candidate(Shape shape, int rows, int cpuRows, double seconds, double requests) {
        /** Requests a second. */
        public double rate() {
            return seconds > 0 ? requests / seconds : 0;
        }

        @Override
        public String toString() {
            return String.format(
                    Locale.ROOT,
                    "%s: %d rows, %d on the CPU, %.2f requests in %.3f ms",
                    shape.label(),
                    rows,
                    cpuRows,
                    requests,
                    seconds * 1e3);
        }
    }

    private final List<Candidate> candidates = new ArrayList<>(3);
    private long step;
    private Shape chosen = Shape.GPU_ONLY;
    private String reason = "";
    private Object[] values = new Object[0];
    private double predicted;
    private double achieved;

    public void consider(Candidate candidate) {
        candidates.add(candidate);
    }

    /** @param reason a format for {@code values} */
    public void because(String reason, Object... values) {
        this.reason = reason;
        this.values = values;
    }

    void planned(long step, Shape chosen, double predicted) {
        this.step = step;
        this.chosen = chosen;
        this.predicted = predicted;
    }

    void achieved(double seconds) {
        achieved = seconds;
    }

    public long step() {
        return step;
    }

    public Shape chosen() {
        return chosen;
    }

    public List<Candidate> candidates() {
        return candidates;
    }

    public String reason() {
        return String.format(Locale.ROOT, reason, values);
    }

    /** Seconds the step was predicted to take; 0 without a cost model. */
    public double predicted() {
        return predicted;
    }

    /** Seconds it took. */
    public double achieved() {
        return achieved;
    }

    @Override
    public String toString() {
        return String.format(
                Locale.ROOT,
                "step %d: %s, predicted %.3f ms, took %.3f ms: %s",
                step,
                chosen.label(),
                predicted * 1e3,
                achieved * 1e3,
                reason());
    }
}
