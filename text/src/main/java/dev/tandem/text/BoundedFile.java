package dev.tandem.text;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Reads a model's file, up to a size limit. */
final class BoundedFile {
    private BoundedFile() {}

    /** @throws TokenizerException when the file is larger than {@code maxBytes} */
    static byte[] read(Path file, long maxBytes) throws IOException {
        long size = Files.size(file);
        if (size > maxBytes) {
            throw new TokenizerException(file + " has " + size + " bytes; the limit is " + maxBytes);
        }
        return Files.readAllBytes(file);
    }
}
