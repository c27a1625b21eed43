package dev.tandem.grammar;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Finds the shared library of llguidance: in the jar, or in a file that a build may make while the process runs. The
 * system property {@code tandem.llguidance} names the file, and {@code tandem.llguidance.builder} the process that
 * makes it (ADR 75).
 *
 * <p>Owned by: any thread.
 */
public final class LlguidanceFinder {
    private static final String RESOURCE = "/native/libtandem-grammar.so";
    private static final LlguidanceFinder OF_PROCESS = ofProperties();

    /** Whether there is a library. */
    public sealed interface Result {}

    /** The library, which stays loaded. */
    public record Found(Llguidance library) implements Result {}

    /** A process makes the library; a later search may find it. */
    public record BeingBuilt() implements Result {}

    /**
     * There is none, and nobody makes one.
     *
     * @param reason for messages to operators
     */
    public record Missing(String reason) implements Result {}

    private final Optional<Path> file;
    private final BooleanSupplier building;
    private Optional<Found> found = Optional.empty();

    /**
     * Finds the library in a file, or in the jar where none is named.
     *
     * @param building whether the file may still come; asked before it is looked for
     */
    LlguidanceFinder(Optional<Path> file, BooleanSupplier building) {
        this.file = file;
        this.building = building;
    }

    /** The finder of this process, which loads the library once. */
    public static LlguidanceFinder ofProcess() {
        return OF_PROCESS;
    }

    private static LlguidanceFinder ofProperties() {
        // the handle knows when the process was started: a later one with its number is not taken for it
        Optional<ProcessHandle> builder =
                Optional.ofNullable(Long.getLong("tandem.llguidance.builder")).flatMap(ProcessHandle::of);
        return new LlguidanceFinder(
                Optional.ofNullable(System.getProperty("tandem.llguidance")).map(Path::of),
                () -> builder.map(ProcessHandle::isAlive).orElse(false));
    }

    /** Looks for the library, which it then keeps. */
    public synchronized Result find() {
        if (found.isPresent()) {
            return found.get();
        }
        boolean mayCome = building.getAsBoolean();
        try (InputStream library = open()) {
            if (library == null) {
                return mayCome ? new BeingBuilt() : new Missing(reason());
            }
            Path copy = Files.createTempFile("tandem-grammar", ".so");
            try {
                Files.copy(library, copy, StandardCopyOption.REPLACE_EXISTING);
                found = Optional.of(new Found(Llguidance.load(copy)));
                return found.get();
            } finally {
                Files.delete(copy);
            }
        } catch (IOException | IllegalArgumentException | NoSuchElementException e) {
            return new Missing("llguidance cannot be loaded: " + e.getMessage());
        }
    }

    private @Nullable InputStream open() throws IOException {
        if (file.isEmpty()) {
            return LlguidanceFinder.class.getResourceAsStream(RESOURCE);
        }
        try {
            return Files.newInputStream(file.get());
        } catch (NoSuchFileException e) {
            return null;
        }
    }

    private String reason() {
        return file.map(path -> "there is no " + path).orElse("it was built without llguidance");
    }
}
