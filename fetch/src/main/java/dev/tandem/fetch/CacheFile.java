package dev.tandem.fetch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** A file of the cache, which other processes may be reading, or writing, too: it is there whole, or not at all. */
public final class CacheFile {
    private CacheFile() {}

    /**
     * Writes a file, and its folder, for all whom the process' umask lets read it: one may fill a cache for another.
     */
    public static void write(Path target, byte[] content) throws IOException {
        Files.createDirectories(target.getParent());
        Path part = target.resolveSibling(target.getFileName() + "."
                + ProcessHandle.current().pid() + "." + Thread.currentThread().threadId() + ".part");
        try {
            Files.write(part, content);
            Files.move(part, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(part);
        }
    }
}
