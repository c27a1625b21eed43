package dev.tandem.app;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine;

/** An amount of memory, written as {@code 512MiB}, {@code 1.5GB}, {@code 4g} or plain bytes. */
record ByteSize(long bytes) {
    private static final Pattern FORM =
            Pattern.compile("([0-9]*\\.?[0-9]+)\\s*([kmgt]?)(i?)b?", Pattern.CASE_INSENSITIVE);

    static ByteSize parse(String text) {
        Matcher form = FORM.matcher(text.strip());
        if (!form.matches()) {
            throw new CommandLine.TypeConversionException(
                    "'" + text + "' is not a size; write for example 512MiB or 4GiB");
        }
        String unit = form.group(2).toLowerCase(Locale.ROOT);
        int power = unit.isEmpty() ? 0 : "kmgt".indexOf(unit) + 1;
        return new ByteSize((long) (Double.parseDouble(form.group(1)) * Math.pow(1024, power)));
    }

    /** Parses the value of an option. */
    static final class Converter implements CommandLine.ITypeConverter<ByteSize> {
        @Override
        public ByteSize convert(String value) {
            return parse(value);
        }
    }

    @Override
    public String toString() {
        return bytes >= 1L << 30
                ? String.format(Locale.ROOT, "%.1f GiB", bytes / (double) (1L << 30))
                : String.format(Locale.ROOT, "%.1f MiB", bytes / (double) (1L << 20));
    }
}
