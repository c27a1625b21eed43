package dev.tandem.cpu.topology;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/** What Linux says about the processor in {@code /proc/cpuinfo}; nothing on other systems. */
public final class CpuInfo {
    private static final Path FILE = Path.of("/proc/cpuinfo");

    private CpuInfo() {}

    /** The processor's name, or the architecture's where the system does not give one. */
    public static String processor() {
        return first("model name").orElseGet(() -> System.getProperty("os.arch"));
    }

    /** Names of the instruction set extensions, as the kernel spells them; empty where the system does not list any. */
    public static Set<String> features() {
        return first("flags")
                .or(() -> first("Features"))
                .<Set<String>>map(line -> new TreeSet<>(Arrays.asList(line.split(" "))))
                .orElseGet(TreeSet::new);
    }

    /** The value of the first line with that key, which may be a prefix of the line's. */
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
            return List.of(); // the file is there and cannot be read: as on systems that have none
        }
    }
}
