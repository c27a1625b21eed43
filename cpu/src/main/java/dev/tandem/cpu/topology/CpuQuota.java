package dev.tandem.cpu.topology;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;

/**
 * The CPU quota of this process's control groups, in CPUs: {@code cpu.max} (version 2) or {@code cpu.cfs_quota_us}
 * (version 1). Unlike {@link Runtime#availableProcessors} it is not rounded up. The kernel stops a process that has
 * used up its quota until the next period, which is usually 100 ms long.
 */
final class CpuQuota {
    private static final String UNLIMITED = "max";

    private CpuQuota() {}

    /**
     * Finds the smallest quota among the process's groups and their ancestors; empty if none is set or the system has
     * no control groups.
     *
     * @param root the root of the file system, with {@code proc/self/cgroup} and {@code sys/fs/cgroup}
     */
    static OptionalDouble find(Path root) {
        List<Double> quotas = new ArrayList<>();
        for (String line : lines(root.resolve("proc/self/cgroup"))) {
            // "number:controllers:path"; version 2 lists no controllers
            String[] parts = line.split(":", 3);
            if (parts.length == 3 && parts[1].isEmpty()) {
                for (String mount : new String[] {"", "unified"}) {
                    addVersion2(root.resolve("sys/fs/cgroup").resolve(mount), parts[2], quotas);
                }
            } else if (parts.length == 3 && List.of(parts[1].split(",")).contains("cpu")) {
                for (String mount : new String[] {parts[1], "cpu", "cpu,cpuacct"}) {
                    addVersion1(root.resolve("sys/fs/cgroup").resolve(mount), parts[2], quotas);
                }
            }
        }
        return quotas.stream().mapToDouble(Double::doubleValue).min();
    }

    private static void addVersion2(Path mount, String path, List<Double> quotas) {
        for (Path group : groups(mount, path)) {
            for (String line : lines(group.resolve("cpu.max"))) {
                String[] values = line.split(" ");
                if (values.length == 2 && !values[0].equals(UNLIMITED)) {
                    quotas.add(Double.parseDouble(values[0]) / Double.parseDouble(values[1]));
                }
            }
        }
    }

    private static void addVersion1(Path mount, String path, List<Double> quotas) {
        for (Path group : groups(mount, path)) {
            List<String> quota = lines(group.resolve("cpu.cfs_quota_us"));
            List<String> period = lines(group.resolve("cpu.cfs_period_us"));
            if (!quota.isEmpty() && !period.isEmpty() && Long.parseLong(quota.getFirst()) > 0) {
                quotas.add(Double.parseDouble(quota.getFirst()) / Double.parseDouble(period.getFirst()));
            }
        }
    }

    /** The mount itself, which in a container is the process's own group, and all groups down to the process's. */
    private static List<Path> groups(Path mount, String path) {
        List<Path> groups = new ArrayList<>(List.of(mount));
        Path group = mount;
        for (String name : path.split("/")) {
            // ".." begins the path of a group that the container cannot see
            if (!name.isEmpty() && !name.equals("..")) {
                group = group.resolve(name);
                groups.add(group);
            }
        }
        return groups;
    }

    /** The file's lines; none if it is absent or unreadable, which means that no such limit is set. */
    private static List<String> lines(Path file) {
        try {
            return Files.exists(file) ? Files.readAllLines(file) : List.of();
        } catch (IOException e) {
            return List.of();
        }
    }
}
