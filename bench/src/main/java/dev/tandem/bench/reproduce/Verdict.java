package dev.tandem.bench.reproduce;

import dev.tandem.engine.strategy.Fidelity;
import java.util.List;
import java.util.Optional;

/**
 * What a reproduction says about a claim.
 *
 * @param claim of the paper
 * @param fidelity of the systems that were run
 * @param outcome of the check
 * @param seeds the quantity's value per seed
 */
public record Verdict(Claim claim, Fidelity fidelity, Outcome outcome, List<Estimate> seeds) {
    /** How far a claim is reproduced. */
    public enum Outcome {
        REPRODUCED("reproduced"),
        DIRECTION_ONLY("direction only"),
        NOT_REPRODUCED("not reproduced"),
        /** The figure ran on another machine than the paper's: there is a number, and no verdict. */
        MEASURED_HERE("measured here"),
        /** Only a part of the figure was simulated: there is a number, and no verdict. */
        PART_SIMULATED("part simulated");

        private final String words;

        Outcome(String words) {
            this.words = words;
        }

        /** Whether it says how far the claim is reproduced. */
        public boolean isVerdict() {
            return this == REPRODUCED || this == DIRECTION_ONLY || this == NOT_REPRODUCED;
        }

        /** The outcomes that points of an origin can have. */
        static List<Outcome> of(Origin origin) {
            return switch (origin) {
                case Origin.Executed _ -> List.of(MEASURED_HERE);
                case Origin.Simulated simulated when !simulated.selection().isWhole() -> List.of(PART_SIMULATED);
                case Origin.Simulated _ -> List.of(REPRODUCED, DIRECTION_ONLY, NOT_REPRODUCED);
            };
        }

        /** The outcome in reports. */
        public String words() {
            return words;
        }
    }

    /**
     * Holds a claim against the curves of each seed; the mean decides. Where only bounds of it are known, a band must
     * contain both.
     *
     * @param curves of at least one seed
     * @param origin what computed them; only a whole figure with the paper's machine has a verdict
     */
    static Verdict of(Claim claim, Fidelity fidelity, List<Curves> curves, Origin origin) {
        List<Estimate> seeds =
                curves.stream().map(seed -> seed.value(claim.quantity())).toList();
        Estimate mean = Estimate.mean(seeds);
        return new Verdict(claim, fidelity, outcome(claim, mean, origin), seeds);
    }

    private static Outcome outcome(Claim claim, Estimate mean, Origin origin) {
        List<Outcome> possible = Outcome.of(origin);
        if (possible.size() == 1) {
            return possible.getFirst();
        }
        return mean.within(claim.holds())
                ? Outcome.REPRODUCED
                : mean.within(claim.direction()) ? Outcome.DIRECTION_ONLY : Outcome.NOT_REPRODUCED;
    }

    /** The mean over the seeds. */
    Estimate mean() {
        return Estimate.mean(seeds);
    }

    /** The smallest value of a seed. */
    double min() {
        return seeds.stream().mapToDouble(Estimate::low).min().orElseThrow();
    }

    /** The largest value of a seed. */
    double max() {
        return seeds.stream().mapToDouble(Estimate::high).max().orElseThrow();
    }

    /** The recorded reason; empty for a reproduced claim, which needs none, and without a verdict. */
    Optional<Reason> reason() {
        return outcome == Outcome.REPRODUCED || !outcome.isVerdict() ? Optional.empty() : claim.reason(fidelity);
    }

    /** The outcome, its reason, and the numbers that it follows from, in one line. */
    public String because() {
        return outcome.words() + why() + ": " + numbers() + outdated() + here();
    }

    /** A claim without a printed number is one of shape or order, which another machine can have as well. */
    private String here() {
        if (outcome != Outcome.MEASURED_HERE || !Double.isNaN(claim.printed()) || isUnmeasured()) {
            return "";
        }
        return "; on this machine that " + (mean().within(claim.holds()) ? "holds" : "does not hold");
    }

    /** Whether the run has no point for the claim's quantity. */
    private boolean isUnmeasured() {
        return Double.isNaN(mean().low());
    }

    private String why() {
        if (outcome == Outcome.REPRODUCED || !outcome.isVerdict()) {
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
        String paper = Double.isNaN(claim.printed()) ? "" : ", the paper prints " + Numbers.text(claim.printed());
        return "ours " + ours() + paper + "; asked for is " + claim.holds();
    }

    private String ours() {
        Estimate mean = mean();
        if (isUnmeasured()) {
            return "is not known, because this run has no point for it";
        }
        if (mean.known()) {
            return "is " + Numbers.text(mean.low())
                    + (min() == max() ? "" : " (seeds: " + Numbers.text(min()) + " to " + Numbers.text(max()) + ")");
        }
        String verb = claim.quantity() instanceof Quantity.Load ? "saturates " : "is ";
        return verb + bounds(mean) + ", because a curve does not cross the latency limit";
    }

    private static String bounds(Estimate estimate) {
        if (Double.isInfinite(estimate.high())) {
            return estimate.low() == 0 ? "unknown" : "above " + Numbers.text(estimate.low());
        }
        return estimate.low() == 0
                ? "below " + Numbers.text(estimate.high())
                : "between " + Numbers.text(estimate.low()) + " and " + Numbers.text(estimate.high());
    }
}
