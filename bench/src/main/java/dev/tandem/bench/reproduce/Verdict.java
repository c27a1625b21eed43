package dev.tandem.bench.reproduce;

import dev.tandem.engine.strategy.Fidelity;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * What a reproduction says about a claim.
 *
 * @param claim of the paper
 * @param fidelity of the systems that were run
 * @param outcome of the check
 * @param mean of the quantity over the seeds
 * @param low smallest value over the seeds
 * @param high largest value over the seeds
 */
public record Verdict(Claim claim, Fidelity fidelity, Outcome outcome, double mean, double low, double high) {
    /** How far a claim is reproduced. */
    public enum Outcome {
        REPRODUCED("reproduced"),
        DIRECTION_ONLY("direction only"),
        NOT_REPRODUCED("not reproduced");

        private final String words;

        Outcome(String words) {
            this.words = words;
        }

        /** The outcome in reports. */
        public String words() {
            return words;
        }
    }

    /**
     * Holds a claim against the curves of each seed; the mean decides.
     *
     * @param seeds curves of at least one seed
     */
    static Verdict of(Claim claim, Fidelity fidelity, List<Curves> seeds) {
        double[] values = seeds.stream()
                .mapToDouble(curves -> curves.value(claim.quantity()))
                .toArray();
        double mean = Arrays.stream(values).average().orElseThrow();
        Outcome outcome = claim.holds().contains(mean)
                ? Outcome.REPRODUCED
                : claim.direction().contains(mean) ? Outcome.DIRECTION_ONLY : Outcome.NOT_REPRODUCED;
        return new Verdict(
                claim,
                fidelity,
                outcome,
                mean,
                Arrays.stream(values).min().orElseThrow(),
                Arrays.stream(values).max().orElseThrow());
    }

    /** The recorded reason; empty for a reproduced claim, which needs none. */
    Optional<Reason> reason() {
        return outcome == Outcome.REPRODUCED ? Optional.empty() : claim.reason(fidelity);
    }

    /** The outcome, its reason, and the numbers that it follows from, in one line. */
    public String because() {
        return outcome.words() + why() + ": " + numbers() + outdated();
    }

    private String why() {
        if (outcome == Outcome.REPRODUCED) {
            return "";
        }
        return reason().map(reason ->
                        ", because " + reason.words() + " (" + reason.basis().key() + ")")
                .orElse(
                        fidelity == Fidelity.TANDEM
                                ? ", because Tandem's own strategies ran, of which the paper claims nothing"
                                : ", and no reason is recorded");
    }

    /** A reason that outlived its verdict would be believed, so the run says that it must go. */
    private String outdated() {
        return outcome != Outcome.REPRODUCED
                ? ""
                : claim.reason(fidelity)
                        .map(reason -> "; the spec file's reason is out of date and must be removed: " + reason.words())
                        .orElse("");
    }

    /** Ours, the printed number, and what the check asks for. */
    private String numbers() {
        String ours = "ours is " + Numbers.text(mean)
                + (low == high ? "" : " (seeds: " + Numbers.text(low) + " to " + Numbers.text(high) + ")");
        String paper = Double.isNaN(claim.printed()) ? "" : ", the paper prints " + Numbers.text(claim.printed());
        return ours + paper + "; asked for is " + claim.holds();
    }
}
