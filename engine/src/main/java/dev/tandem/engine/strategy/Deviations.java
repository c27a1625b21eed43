package dev.tandem.engine.strategy;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Collections;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalDouble;

/**
 * A value for every {@link Deviation}: those of one {@link Fidelity}, of which single ones may be changed.
 *
 * <p>Owned by: any thread, immutable.
 */
public final class Deviations {
    private final Fidelity fidelity;
    private final Map<Deviation, String> values;

    private Deviations(Fidelity fidelity, Map<Deviation, String> values) {
        this.fidelity = fidelity;
        this.values = Collections.unmodifiableMap(values);
    }

    /** The values of a fidelity. */
    public static Deviations of(Fidelity fidelity) {
        Map<Deviation, String> values = new EnumMap<>(Deviation.class);
        for (Deviation deviation : Deviation.values()) {
            values.put(deviation, deviation.value(fidelity));
        }
        return new Deviations(fidelity, values);
    }

    /** The fidelity of the values that were not changed. */
    public Fidelity fidelity() {
        return fidelity;
    }

    /**
     * Returns these deviations with one value changed.
     *
     * @throws ConfigurationException that lists the values that the deviation may have
     */
    public Deviations with(Deviation deviation, String value) {
        if (!deviation.allows(value)) {
            throw new ConfigurationException("--deviation " + deviation.flag() + "=" + value
                    + ": the value is not known; use " + String.join(" or ", deviation.words()));
        }
        Map<Deviation, String> changed = new EnumMap<>(values);
        changed.put(deviation, value);
        return new Deviations(fidelity, changed);
    }

    /** Returns these deviations with a true or false value changed. */
    public Deviations with(Deviation deviation, boolean value) {
        return with(deviation, String.valueOf(value));
    }

    /**
     * Returns these deviations with one value changed as {@code --deviation} says.
     *
     * @param assignment NAME=VALUE
     * @throws ConfigurationException that names what is not known
     */
    public Deviations with(String assignment) {
        int equals = assignment.indexOf('=');
        if (equals < 0) {
            throw new ConfigurationException(
                    "--deviation " + assignment + " has no value; use NAME=VALUE, as in room-to-grow=false");
        }
        return with(Deviation.of(assignment.substring(0, equals)), assignment.substring(equals + 1));
    }

    /** Whether a true or false deviation is true. */
    public boolean has(Deviation deviation) {
        if (!deviation.isBoolean()) {
            throw new IllegalArgumentException(deviation.flag() + " is not true or false; ask for its value");
        }
        return Boolean.parseBoolean(value(deviation));
    }

    /** The value of a deviation that is a number, or empty where it is another word. */
    public OptionalDouble number(Deviation deviation) {
        return Deviation.isNumber(value(deviation))
                ? OptionalDouble.of(Double.parseDouble(value(deviation)))
                : OptionalDouble.empty();
    }

    /** The value of a deviation. */
    public String value(Deviation deviation) {
        String value = values.get(deviation);
        if (value == null) {
            throw new IllegalStateException(deviation.flag() + " has no value");
        }
        return value;
    }

    /** The values that differ from those of the fidelity, by name, for results. */
    public Map<String, String> changed() {
        Map<String, String> changed = new LinkedHashMap<>();
        values.forEach((deviation, value) -> {
            if (!value.equals(deviation.value(fidelity))) {
                changed.put(deviation.flag(), value);
            }
        });
        return changed;
    }
}
