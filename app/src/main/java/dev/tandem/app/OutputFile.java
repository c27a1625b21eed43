package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Checks at the start of a command that it can write its results at the end, so that no measurement is lost. */
final class OutputFile {
    private OutputFile() {}

    /**
     * @param option name of the option that gives the file
     * @throws ConfigurationException when the file cannot be written at its path
     */
    static void check(String option, Path file) {
        Path absolute = file.toAbsolutePath();
        if (Files.isDirectory(absolute)) {
            throw new ConfigurationException(option + " " + file + " is a directory; name a file in it");
        }
        if (Files.exists(absolute)) {
            if (!Files.isWritable(absolute)) {
                throw new ConfigurationException(option + " " + file
                        + " may not be written by this user; change its rights or name another file");
            }
            return;
        }
        Path folder = absolute.getParent();
        while (folder != null && !Files.exists(folder)) {
            folder = folder.getParent();
        }
        if (folder == null || !Files.isDirectory(folder) || !Files.isWritable(folder)) {
            throw new ConfigurationException(option + " " + file + " cannot be written: " + folder
                    + " is not a directory that this user may write; name another file");
        }
    }
}
