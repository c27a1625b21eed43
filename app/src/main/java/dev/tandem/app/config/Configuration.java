package dev.tandem.app.config;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.PositionalParamSpec;
import picocli.CommandLine.ParseResult;

/** The options of a command that was parsed: what each is, and where that comes from. */
public record Configuration(List<Setting> settings) {
    private static final Pattern OPTION = Pattern.compile("--([a-z][a-z0-9-]*)");
    /** Plain in YAML and unquoted in a shell; no number, boolean or null needs quotes, as an option is text anyway. */
    private static final Pattern PLAIN = Pattern.compile("[A-Za-z0-9/._][A-Za-z0-9/._@+=,-]*");

    /** The column of the sources, which most lines reach. */
    private static final int SOURCE_COLUMN = 40;

    /** The options of a command with {@code --config}, after it has parsed its arguments. */
    public static Configuration of(CommandLine command) {
        List<Setting> settings = new ArrayList<>();
        if (command.getDefaultValueProvider() instanceof OptionValues values
                && command.getCommandSpec().findOption("--" + KnownOptions.CONFIG) != null) {
            command.getCommandSpec().args().stream()
                    .filter(values::covers)
                    .sorted(Comparator.comparing(ArgSpec::isOption)) // the model is first
                    .map(option -> setting(option, command.getParseResult(), values))
                    .forEach(settings::add);
        }
        return new Configuration(List.copyOf(settings));
    }

    private static Setting setting(ArgSpec option, ParseResult parsed, OptionValues values) {
        String key = KnownOptions.key(option);
        Setting found = onCommandLine(option, parsed)
                .map(given -> new Setting(key, Optional.of(given(given)), new Source.CommandLine()))
                .or(() -> values.find(option))
                .orElseGet(() -> new Setting(key, byDefault(option), new Source.Default()));
        return KnownOptions.isSecret(option) ? found.hidden() : found;
    }

    /** What the command line gives of an option: itself, or the one that says the same. */
    private static Optional<ArgSpec> onCommandLine(ArgSpec option, ParseResult parsed) {
        Stream<ArgSpec> repeating = option.command().options().stream()
                .filter(KnownOptions::repeats)
                .filter(other -> KnownOptions.key(other).equals(KnownOptions.key(option)))
                .map(ArgSpec.class::cast);
        return Stream.concat(Stream.of(option), repeating)
                .filter(one -> matched(one, parsed))
                .findFirst();
    }

    private static boolean matched(ArgSpec option, ParseResult parsed) {
        return switch (option) {
            case OptionSpec named -> parsed.hasMatchedOption(named);
            case PositionalParamSpec positional -> parsed.hasMatchedPositional(positional);
            default -> false;
        };
    }

    /** The value on the command line; an option without one is true, or false where it begins with {@code --no-}. */
    private static String given(ArgSpec option) {
        Object value = option.getValue();
        Object plain = value instanceof Optional<?> optional ? optional.orElse(null) : value;
        return plain instanceof Boolean ? plain.toString() : String.join(",", option.originalStringValues());
    }

    private static Optional<String> byDefault(ArgSpec option) {
        return Optional.ofNullable(option.defaultValue())
                .or(() -> option.initialValue() instanceof Boolean value
                        ? Optional.of(value.toString())
                        : Optional.empty());
    }

    private List<Setting> changed() {
        return settings.stream()
                .filter(setting -> !(setting.source() instanceof Source.Default))
                .toList();
    }

    /** One line of all values that are not the defaults. */
    public String line() {
        return changed().isEmpty()
                ? "all defaults"
                : changed().stream()
                        .map(setting ->
                                setting.key() + " " + setting.shown().orElse("") + " (" + setting.source() + ")")
                        .collect(Collectors.joining(", "));
    }

    /** All options as a configuration file, with the source of each value in a comment. */
    public List<String> yaml() {
        return settings.stream().map(Configuration::yaml).toList();
    }

    private static String yaml(Setting setting) {
        String text = (setting.value().isEmpty() ? "# " : "") + setting.key() + ":"
                + setting.value().map(value -> " " + quoted(value)).orElse("");
        return text + " ".repeat(Math.max(1, SOURCE_COLUMN - text.length())) + "# "
                + (setting.secret() ? Secret.SHOWN + ", " : "")
                + (setting.shown().isEmpty() ? "not set" : setting.source());
    }

    private static String quoted(String value) {
        return PLAIN.matcher(value).matches() ? value : "'" + value.replace("'", "''") + "'";
    }

    /**
     * Adds to a message where the options that it names were set, unless on the command line.
     *
     * @param message of an error, for example {@code --port 70000 must lie in [0, 65535]}
     */
    public String withSources(String message) {
        String sources = named(message).stream()
                .flatMap(
                        key -> settings.stream().filter(setting -> setting.key().equals(key)))
                .filter(setting ->
                        setting.source() instanceof Source.File || setting.source() instanceof Source.Environment)
                .map(setting -> "--" + setting.key() + " is set by " + setting.source())
                .collect(Collectors.joining(", "));
        return sources.isEmpty() ? message : message + " (" + sources + ")";
    }

    /** The keys of the options that a message names. */
    public static List<String> named(String message) {
        return OPTION.matcher(message)
                .results()
                .map(match -> match.group(1))
                .distinct()
                .toList();
    }
}
