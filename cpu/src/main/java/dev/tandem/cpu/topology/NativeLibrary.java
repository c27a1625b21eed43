package dev.tandem.cpu.topology;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** A shared library that the build compiled from {@code src/main/native}, and that lies in the jar. */
public final class NativeLibrary {
    private NativeLibrary() {}

    /** A library cannot be used; the message says why. */
    public static final class UnavailableException extends Exception {
        UnavailableException(String message) {
            super(message);
        }
    }

    /**
     * Loads a library, which stays loaded.
     *
     * @param name without prefix and suffix, such as {@code tandem-amx}
     * @throws UnavailableException if the build did not compile it, or if it cannot be loaded
     */
    public static SymbolLookup open(String name) throws UnavailableException {
        try (InputStream file = NativeLibrary.class.getResourceAsStream("/native/lib" + name + ".so")) {
            if (file == null) {
                throw new UnavailableException("the build found no C compiler for the kernel " + name);
            }
            Path copy = Files.createTempFile(name, ".so");
            try {
                Files.copy(file, copy, StandardCopyOption.REPLACE_EXISTING);
                return SymbolLookup.libraryLookup(copy, Arena.global());
            } finally {
                Files.delete(copy);
            }
        } catch (IOException | IllegalArgumentException e) {
            throw new UnavailableException("the kernel " + name + " cannot be loaded: " + e.getMessage());
        }
    }
}
