package dev.tandem.bench.reproduce;

import dev.tandem.engine.strategy.Fidelity;
import java.util.Set;

/**
 * Why a claim is not fully reproduced, as the figure's spec file records it.
 *
 * @param fidelities under which it is the reason
 * @param basis how it is known
 * @param words what the reason is, as the end of a sentence that begins with "because"
 */
public record Reason(Set<Fidelity> fidelities, Basis basis, String words) {
    /** How a reason is known. */
    public enum Basis {
        /** A run with one thing changed showed it, or arithmetic on numbers that the papers print. */
        MEASURED("measured"),
        /** Nothing has shown it. */
        ASSUMED("assumed");

        private final String key;

        Basis(String key) {
            this.key = key;
        }

        /** The name in spec files and reports. */
        public String key() {
            return key;
        }
    }
}
