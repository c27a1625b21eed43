package dev.tandem.cuda;

import dev.tandem.cuda.device.Resources;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Optional;

/**
 * Resources that are closed together, the youngest first.
 *
 * <p>Owned by: engine thread.
 */
public final class Owned {
    private final ArrayDeque<AutoCloseable> resources = new ArrayDeque<>();

    <T extends AutoCloseable> T own(T resource) {
        resources.push(resource);
        return resource;
    }

    /** The youngest of them; empty when none is open. */
    Optional<AutoCloseable> youngest() {
        return Optional.ofNullable(resources.peek());
    }

    /** Closes all of them; each is closed once, whatever the others do. */
    void closeAll() {
        List<AutoCloseable> all = List.copyOf(resources);
        resources.clear();
        Resources.closeAll(all);
    }
}
