package dev.tandem.model;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Reads a model's JSON files, up to a size limit. */
public final class ModelFile {
    private ModelFile() {}

    /**
     * Reads the whole file.
     *
     * @throws ModelException when the file is larger than {@code maxBytes}
     */
    public static byte[] read(Path file, long maxBytes) throws IOException {
        long size = Files.size(file);
        if (size > maxBytes) {
            throw new ModelException(file + " has " + size + " bytes; the limit is " + maxBytes);
        }
        return Files.readAllBytes(file);
    }
}
