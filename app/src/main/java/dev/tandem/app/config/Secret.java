package dev.tandem.app.config;

import picocli.CommandLine.ITypeConverter;

/** The value of an option that is never printed. */
public record Secret(String value) {
    static final String SHOWN = "not shown";

    @Override
    public String toString() {
        return SHOWN;
    }

    /** Parses the value of an option. */
    public static final class Converter implements ITypeConverter<Secret> {
        @Override
        public Secret convert(String value) {
            return new Secret(value);
        }
    }
}
