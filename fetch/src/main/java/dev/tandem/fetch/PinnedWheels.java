package dev.tandem.fetch;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** The checksums and sizes of the wheels that may be fetched, so that an index or a proxy cannot replace a file. */
record PinnedWheels(Map<String, Pin> byFilename) {

    /** @param sha256 in lower case */
    record Pin(String sha256, long bytes) {}

    /** The wheels of {@code wheels.txt}, which is committed with the code. */
    static PinnedWheels committed() {
        try (InputStream in = PinnedWheels.class.getResourceAsStream("wheels.txt")) {
            return parse(new String(in.readAllBytes(), StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException("the list of pinned wheels cannot be read", e);
        }
    }

    static PinnedWheels parse(String lines) {
        Map<String, Pin> pins = new HashMap<>();
        lines.lines().filter(line -> !line.startsWith("#")).forEach(line -> {
            String[] parts = line.split(" ");
            pins.put(parts[2], new Pin(parts[0], Long.parseLong(parts[1])));
        });
        return new PinnedWheels(Map.copyOf(pins));
    }

    Optional<Pin> find(String filename) {
        return Optional.ofNullable(byFilename.get(filename));
    }
}
