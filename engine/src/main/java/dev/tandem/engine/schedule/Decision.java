package dev.tandem.engine.schedule;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Why a step was planned as it is: the candidates with their predicted times, the chosen one, and the reason.
 *
 * <p>The reason is formatted only when it is read.
 *
 * <p>Owned by: engine thread until {@link DecisionLog#add}; unchanged from then on.
 */
public final class Decision {
    /**
     * A step that the policy considered.
     *
     * @param shape how its parts overlap
     * @param rows tokens
     * @param cpuRows tokens whose attention the CPU computes
     * @param seconds predicted time
     * @param requests x of NEO §3.2: the step's progress in requests
     */
    public record Candidate(Shape shape, int rows, int cpuRows, double seconds, double requests) {
        /** Requests per second. */
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
    private String note = "";
    private double predicted;
    private int inFlight;
    private int finishing;
    private double achieved;
    private double waited;

    /** Adds a candidate. */
    public void consider(Candidate candidate) {
        candidates.add(candidate);
    }

    /**
     * Sets the reason.
     *
     * @param reason a format for {@code values}
     */
    public void because(String reason, Object... values) {
        this.reason = reason;
        this.values = values;
    }

    /** Sets what is said after the reason; empty for nothing. */
    void note(String text) {
        note = text;
    }

    /**
     * Sets what the plan is.
     *
     * @param inFlight tokens in flight during the step
     * @param finishing those of them that finish within it
     */
    void planned(long step, Shape chosen, double predicted, int inFlight, int finishing) {
        this.step = step;
        this.chosen = chosen;
        this.predicted = predicted;
        this.inFlight = inFlight;
        this.finishing = finishing;
    }

    /**
     * Sets what was measured of the step.
     *
     * @param waited seconds of them in which the GPU waited for the CPU's attention
     */
    void achieved(double seconds, double waited) {
        this.achieved = seconds;
        this.waited = waited;
    }

    /** Number of the step. */
    public long step() {
        return step;
    }

    /** Shape of the chosen step. */
    public Shape chosen() {
        return chosen;
    }

    /** The steps that the policy considered. */
    public List<Candidate> candidates() {
        return candidates;
    }

    /** The reason in words. */
    public String reason() {
        String words = String.format(Locale.ROOT, reason, values);
        return note.isEmpty() ? words : words + "; " + note;
    }

    /** Predicted seconds of the step; 0 without a cost model. */
    public double predicted() {
        return predicted;
    }

    /** Tokens in flight during the step. */
    public int inFlight() {
        return inFlight;
    }

    /** Tokens in flight that finish within the step. */
    public int finishing() {
        return finishing;
    }

    /** Measured seconds of the step. */
    public double achieved() {
        return achieved;
    }

    /** Measured seconds in which the GPU waited for the CPU's attention; 0 where the executor does not measure it. */
    public double waited() {
        return waited;
    }

    @Override
    public String toString() {
        return String.format(
                Locale.ROOT,
                "step %d: %s, predicted %.3f ms, took %.3f ms%s%s: %s",
                step,
                chosen.label(),
                predicted * 1e3,
                achieved * 1e3,
                waited == 0 ? "" : String.format(Locale.ROOT, ", waited %.3f ms for the CPU", waited * 1e3),
                inFlight == 0 ? "" : String.format(Locale.ROOT, ", %d in flight, %d finish", inFlight, finishing),
                reason());
    }
}
