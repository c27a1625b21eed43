package dev.tandem.engine.strategy;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/** How close the strategies stay to the papers. Each fidelity is a set of values of {@link Deviation}. */
public enum Fidelity {
    /** The rules that the papers print. */
    PRINTED,
    /** The rules that NEO's public artifact has, and the thresholds that the papers' implementation sections name. */
    ARTIFACT,
    /** Tandem's own rules. */
    TANDEM;

    /** The name on the command line and in results. */
    public String flag() {
        return name().toLowerCase(Locale.ROOT);
    }

    /**
     * Finds a fidelity by its name.
     *
     * @throws ConfigurationException that lists the names
     */
    public static Fidelity of(String flag) {
        return Arrays.stream(values())
                .filter(fidelity -> fidelity.flag().equals(flag))
                .findFirst()
                .orElseThrow(() -> new ConfigurationException("--fidelity " + flag + " is not known; use "
                        + Arrays.stream(values()).map(Fidelity::flag).collect(Collectors.joining(", "))));
    }
}
