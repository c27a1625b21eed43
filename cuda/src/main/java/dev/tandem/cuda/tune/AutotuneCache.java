package dev.tandem.cuda.tune;

import dev.tandem.cuda.gemm.AlgorithmStore;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.fetch.CacheFile;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * Keeps measured choices on disk by name, so that later starts are faster and compute every GEMM with the same
 * algorithm. A file belongs to one GPU, model and library, and ends with its own hash. A damaged file, or one with
 * another identity, counts as absent.
 *
 * <p>Owned by: the executor's thread.
 */
public final class AutotuneCache implements AlgorithmStore {
    private static final String HASH = "hash ";
    private static final String DELETE = "# Delete this file to have it measured again.";

    private final Path file;
    private final List<String> heading;
    private final SortedMap<String, String> values = new TreeMap<>();
    private boolean measured;
    private Optional<String> unkept = Optional.empty();

    private AutotuneCache(Path file, List<String> heading) {
        this.file = file;
        this.heading = heading;
    }

    /**
     * The choices kept in a folder for an identity; empty when there are none.
     *
     * @param folder created when something is written
     * @param identity everything that the choices depend on, in one line
     */
    public static AutotuneCache open(Path folder, String identity) {
        Path file = folder.resolve(hash(identity).substring(0, 16) + ".choices");
        AutotuneCache choices = new AutotuneCache(file, List.of("# Measured once on " + identity, DELETE));
        choices.read();
        return choices;
    }

    private void read() {
        List<String> lines;
        try {
            lines = Files.readAllLines(file);
        } catch (IOException absent) {
            return;
        }
        int last = lines.size() - 1;
        if (last < heading.size()
                || !lines.subList(0, heading.size()).equals(heading)
                || !lines.get(last).equals(sealed(lines.subList(0, last)))) {
            return;
        }
        lines.subList(heading.size(), last).forEach(line -> {
            int space = line.indexOf(' ');
            values.put(line.substring(0, space), line.substring(space + 1));
        });
    }

    /** The choice kept under a name, else the result of {@code measurement}, which is kept. */
    public String of(String name, Supplier<String> measurement) {
        return find(name).orElseGet(() -> {
            String value = measurement.get();
            put(name, value);
            return value;
        });
    }

    @Override
    public Optional<String> find(String name) {
        return Optional.ofNullable(values.get(name));
    }

    @Override
    public void put(String name, String value) {
        if (name.contains(" ") || value.contains("\n")) {
            throw new IllegalArgumentException("'" + name + " " + value + "' is not a line of a name and a value");
        }
        values.put(name, value);
        measured = true;
    }

    /**
     * Writes new choices. When the file cannot be written, the next start measures again, and {@link #origin()} says
     * so.
     */
    public void keep() {
        if (!measured) {
            return;
        }
        try {
            CacheFile.write(file, text().getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            unkept = Optional.of(e.toString());
        }
    }

    private String text() {
        List<String> lines = values.entrySet().stream().map(AutotuneCache::line).collect(Collectors.toList());
        lines.addAll(0, heading);
        lines.add(sealed(lines));
        return String.join("\n", lines) + "\n";
    }

    private static String line(Map.Entry<String, String> choice) {
        return choice.getKey() + " " + choice.getValue();
    }

    private static String sealed(List<String> lines) {
        return HASH + hash(String.join("\n", lines));
    }

    private static String hash(String text) {
        return HexFormat.of().formatHex(KernelCompiler.hash(text.getBytes(StandardCharsets.UTF_8)));
    }

    /** When the choices were measured, and where they are kept, for the log. */
    public String origin() {
        if (unkept.isPresent()) {
            return "measured; " + file + " cannot be written (" + unkept.get() + "), so the next start measures again";
        }
        return measured ? "measured, kept in " + file : "as kept in " + file;
    }
}
