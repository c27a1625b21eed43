package dev.tandem.cuda;

import dev.tandem.cuda.device.Resources;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Optional;

/**
 * Resources that are closed together, the youngest first; each is opened after those that it uses.
 *
 * <p>Owned by: engine thread.
 */
public final class Owned {
    private final ArrayDeque<AutoCloseable> resources = new ArrayDeque<>();

    /** Takes ownership of a resource, and returns it. */
    <T extends AutoCloseable> T own(T resource) {
        resources.push(resource);
        return resource;
    }

    /** The youngest of them; empty when none is open. */
    Optional<AutoCloseable> youngest() {
        return Optional.ofNullable(resources.peek());
    }

    /** Closes all of them once, also when some fail to close. */
    void closeAll() {
        List<AutoCloseable> all = List.copyOf(resources);
        resources.clear();
        Resources.closeAll(all);
    }
}
