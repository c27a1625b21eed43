package dev.tandem.bench.reproduce;

import dev.tandem.engine.strategy.Fidelity;
import java.util.List;
import java.util.Optional;

/**
 * A statement of a paper, in words and as a check.
 *
 * @param words what the paper says, in short
 * @param section where
 * @param printed the number that the text prints; NaN for a claim of shape without one
 * @param quantity the number of ours that is held against it
 * @param holds where the claim is reproduced
 * @param direction where only its direction is
 * @param reasons why it is not fully reproduced; at most one per fidelity
 */
public record Claim(
        String words,
        String section,
        double printed,
        Quantity quantity,
        Band holds,
        Band direction,
        List<Reason> reasons) {
    /** The recorded reason under a fidelity. */
    Optional<Reason> reason(Fidelity fidelity) {
        return reasons.stream()
                .filter(reason -> reason.fidelities().contains(fidelity))
                .findFirst();
    }
}
