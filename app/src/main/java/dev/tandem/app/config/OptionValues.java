package dev.tandem.app.config;

import dev.tandem.engine.config.ConfigurationException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.IDefaultValueProvider;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.ParameterException;

/**
 * The values of options that the command line leaves open: from the environment, then from the configuration file.
 *
 * <p>Only commands with the option {@code --config} read them. Such a command takes from the file the options that it
 * has; the others are for {@code serve}, which has them all. picocli asks after it has read the command line, so that
 * {@code --config} is known.
 *
 * <p>Owned by: the thread of the command.
 */
public final class OptionValues implements IDefaultValueProvider {
    /** Variables of Tandem that set no option. */
    private static final Set<String> OTHER_VARIABLES =
            Set.of("TANDEM_CACHE", "TANDEM_JAVA_OPTIONS", "TANDEM_FETCH_JDK");

    private static final String FILE_VARIABLE = KnownOptions.variable(KnownOptions.CONFIG);

    private final Supplier<KnownOptions> options;
    private final Map<String, String> environment;
    private @Nullable KnownOptions known;
    private @Nullable ConfigurationFile file;

    /** @param options made at the first use, because most commands need none */
    public OptionValues(Supplier<KnownOptions> options, Map<String, String> environment) {
        this.options = options;
        this.environment = environment;
    }

    private KnownOptions known() {
        KnownOptions made = known;
        if (made == null) {
            made = options.get();
            known = made;
        }
        return made;
    }

    /** Whether the environment and the file may set the option. */
    boolean covers(ArgSpec option) {
        OptionSpec config = option.command().findOption("--" + KnownOptions.CONFIG);
        return config != null
                && option != config
                && !KnownOptions.repeats(option)
                && known().has(KnownOptions.key(option));
    }

    @Override
    public @Nullable String defaultValue(ArgSpec option) {
        return KnownOptions.literally(find(option).flatMap(Setting::value).orElse(null));
    }

    /**
     * The setting of an option by the environment or the file; empty where neither sets it.
     *
     * @throws ParameterException when the value, or anything in the file, is wrong
     */
    public Optional<Setting> find(ArgSpec option) {
        if (!covers(option)) {
            return Optional.empty();
        }
        CommandSpec command = option.command();
        String key = KnownOptions.key(option);
        try {
            Optional<Setting> ofEnvironment = ofEnvironment(key);
            return ofEnvironment.isPresent() ? ofEnvironment : ofFile(key, command);
        } catch (ConfigurationException e) {
            throw new ParameterException(command.commandLine(), String.valueOf(e.getMessage()), e);
        }
    }

    private Optional<String> variable(String name) {
        return Optional.ofNullable(environment.get(name)).filter(value -> !value.isEmpty());
    }

    private Optional<Setting> ofEnvironment(String key) {
        String name = KnownOptions.variable(key);
        Optional<String> value = variable(name);
        value.flatMap(text -> known().problem(key, text)).ifPresent(problem -> {
            throw new ConfigurationException("the variable " + name + ": " + problem);
        });
        return value.map(text -> new Setting(key, Optional.of(text), new Source.Environment(name)));
    }

    private Optional<Setting> ofFile(String key, CommandSpec command) {
        OptionSpec config = command.findOption("--" + KnownOptions.CONFIG);
        Optional<Path> given = config == null ? Optional.empty() : config.getValue();
        Optional<Path> path = given.or(() -> variable(FILE_VARIABLE).map(Path::of));
        String named = given.isPresent() ? "--config" : "the variable " + FILE_VARIABLE;
        return path.map(found -> file(named, found))
                .flatMap(read -> Optional.ofNullable(read.entries().get(key))
                        .map(entry -> new Setting(
                                key, Optional.of(entry.value()), new Source.File(read.path(), entry.line()))));
    }

    private ConfigurationFile file(String named, Path path) {
        ConfigurationFile read = file;
        if (read == null || !read.path().equals(path)) {
            read = ConfigurationFile.read(named, path, known());
            file = read;
        }
        if (!read.problems().isEmpty()) {
            int more = read.problems().size() - 1;
            throw new ConfigurationException(read.text(read.problems().getFirst())
                    + (more == 0 ? "" : " (and " + more + " more; tandem config check " + path + " names all)"));
        }
        return read;
    }

    /** Sentences about variables that begin as Tandem's do and set nothing. */
    public List<String> unknownVariables() {
        Set<String> names = new TreeSet<>(environment.keySet());
        names.removeIf(name -> !name.startsWith(KnownOptions.PREFIX) || OTHER_VARIABLES.contains(name));
        known().all().forEach(option -> names.remove(KnownOptions.variable(KnownOptions.key(option))));
        names.remove(FILE_VARIABLE);
        List<String> sentences = new ArrayList<>();
        for (String name : names) {
            sentences.add("The variable " + name + " sets no option; "
                    + known().nearest(name.substring(KnownOptions.PREFIX.length()))
                            .map(near -> "did you mean " + KnownOptions.variable(near) + "?")
                            .orElse("tandem config show lists the options."));
        }
        return sentences;
    }
}
