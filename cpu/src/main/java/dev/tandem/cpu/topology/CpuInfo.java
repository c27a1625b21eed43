package dev.tandem.cpu.topology;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/** The processor's name and features from {@code /proc/cpuinfo}; other systems than Linux have no such file. */
public final class CpuInfo {
    private static final Path FILE = Path.of("/proc/cpuinfo");

    private CpuInfo() {}

    /** The processor's model name, or the architecture's name if the system does not give one. */
    public static String processor() {
        return first("model name").orElseGet(() -> System.getProperty("os.arch"));
    }

    /** The instruction set extensions by Linux's names; empty if the system does not list them. */
    public static Set<String> features() {
        return first("flags")
                .or(() -> first("Features"))
                .<Set<String>>map(line -> new TreeSet<>(Arrays.asList(line.split(" "))))
                .orElseGet(TreeSet::new);
    }

    /** The value of the first line that begins with the key. */
    private static Optional<String> first(String key) {
        return lines().stream()
                .filter(line -> line.startsWith(key))
                .map(line -> line.substring(line.indexOf(':') + 1).strip())
                .findFirst();
    }

    private static List<String> lines() {
        try {
            return Files.exists(FILE) ? Files.readAllLines(FILE) : List.of();
        } catch (IOException e) {
            return List.of(); // a file that cannot be read is treated as absent
        }
    }
}
