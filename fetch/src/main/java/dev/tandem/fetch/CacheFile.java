package dev.tandem.fetch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** Writes files of the cache atomically, because other processes may read or write them at the same time. */
public final class CacheFile {
    private CacheFile() {}

    /**
     * Writes a file and creates its folder, with the permissions of the process's umask. Other users can thus read a
     * cache that one user has filled.
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

    /**
     * The error of a file that cannot be written, with the space that is left on its disk.
     *
     * @param variable of the environment that moves the cache
     */
    public static FetchException cannotWrite(Path file, String variable, IOException e) {
        return new FetchException(
                "cannot write " + file + ": "
                        + (e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage()) + freeSpace(file)
                        + "; free some space, or set " + variable + " to a directory elsewhere",
                e);
    }

    private static String freeSpace(Path file) {
        Path folder = file.toAbsolutePath().getParent();
        while (folder != null && !Files.isDirectory(folder)) {
            folder = folder.getParent();
        }
        try {
            return folder == null
                    ? ""
                    : ", with " + Files.getFileStore(folder).getUsableSpace() + " bytes free on the disk";
        } catch (IOException e) {
            return ""; // a disk that cannot be asked is the error itself
        }
    }
}
