package dev.tandem.app.config;

import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.ParameterException;

/** The options that a configuration file and the environment may set: those of one command, by their keys. */
public final class KnownOptions {
    /** The option that names the configuration file. */
    public static final String CONFIG = "config";

    static final String PREFIX = "TANDEM_";
    private static final Pattern PARSER_PREFIX =
            Pattern.compile("^Invalid value for (?:option|positional parameter)[^:]*: ");

    private final CommandLine command;
    private final Map<String, ArgSpec> byKey = new LinkedHashMap<>();

    /** @param command of its own, which parses values to find out whether they are valid */
    public KnownOptions(CommandLine command) {
        this.command = command;
        for (ArgSpec option : command.getCommandSpec().args()) {
            if (!key(option).equals(CONFIG) && !isHelp(option) && !repeats(option)) {
                byKey.put(key(option), option);
            }
        }
    }

    private static boolean isHelp(ArgSpec option) {
        return option instanceof OptionSpec named && (named.usageHelp() || named.versionHelp());
    }

    /** Whether an option says the same as a positional parameter, which is the one that files and variables set. */
    static boolean repeats(ArgSpec option) {
        return option.isOption()
                && option.command().positionalParameters().stream()
                        .anyMatch(argument -> key(argument).equals(key(option)));
    }

    /** The key of an option: its long name without hyphens in front, or the name of a positional parameter. */
    public static String key(ArgSpec option) {
        return option instanceof OptionSpec named
                ? named.longestName().replaceFirst("^-+", "")
                : option.paramLabel().toLowerCase(Locale.ROOT);
    }

    /** The variable of the environment that sets an option. */
    public static String variable(String key) {
        return PREFIX + key.toUpperCase(Locale.ROOT).replace('-', '_');
    }

    /** Whether the value of the option is never printed. */
    static boolean isSecret(ArgSpec option) {
        return Arrays.asList(option.typeInfo().getAuxiliaryTypes()).contains(Secret.class);
    }

    boolean has(String key) {
        return byKey.containsKey(key);
    }

    Collection<ArgSpec> all() {
        return byKey.values();
    }

    /** Whether the option takes several values. */
    boolean isList(String key) {
        ArgSpec option = byKey.get(key);
        return option != null && option.typeInfo().isMultiValue();
    }

    /** The key that is most like the text; empty if none is alike. */
    Optional<String> nearest(String text) {
        String hyphens = text.toLowerCase(Locale.ROOT).replace('_', '-').replaceFirst("^-+", "");
        return byKey.keySet().stream()
                .filter(key -> EditDistance.of(hyphens, key) <= Math.max(2, key.length() / 4))
                .min(Comparator.comparingInt(key -> EditDistance.of(hyphens, key)));
    }

    /** Gives options of a command the values of a file. */
    public static void presetTo(CommandLine command, Map<String, ConfigurationFile.Entry> values) {
        command.setDefaultValueProvider(option -> {
            ConfigurationFile.Entry entry = values.get(key(option));
            return entry == null ? null : literally(entry.value());
        });
    }

    /** What is wrong with the type of the value, with the remedy; empty when the option takes it. */
    Optional<String> problem(String key, String value) {
        presetTo(command, Map.of(key, new ConfigurationFile.Entry(value, 0)));
        try {
            command.parseArgs();
            return Optional.empty();
        } catch (ParameterException e) {
            String message = String.valueOf(e.getMessage());
            return Optional.of(key + ": "
                    + problem(e)
                            .orElseGet(() -> PARSER_PREFIX.matcher(message).replaceFirst("") + remedy(e.getArgSpec())));
        }
    }

    private String remedy(@Nullable ArgSpec option) {
        return option != null && option.typeInfo().isBoolean()
                ? "; write true or false"
                : "; tandem " + command.getCommandName() + " --help describes it";
    }

    /** For a value of an enum that is not known: the value, and the known ones. */
    public static Optional<String> problem(ParameterException wrong) {
        ArgSpec option = wrong.getArgSpec();
        if (option == null || !option.typeInfo().isEnum() || wrong.getValue() == null) {
            return Optional.empty();
        }
        List<String> known = option.typeInfo().getEnumConstantNames().stream()
                .map(name -> name.toLowerCase(Locale.ROOT).replace('_', '-'))
                .toList();
        return Optional.of(wrong.getValue() + " is not known; use " + String.join(" or ", known));
    }

    /** Keeps picocli from replacing variables within a value. */
    static @Nullable String literally(@Nullable String value) {
        return value == null ? null : value.replace("${", "$${");
    }
}
