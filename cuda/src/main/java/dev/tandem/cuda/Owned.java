package dev.tandem.cuda;

import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.hostattention.HostTokenTracker;
import java.util.ArrayDeque;
import java.util.List;

/**
 * Resources that are closed together, the youngest first; each is opened after those that it uses.
 *
 * <p>Owned by: engine thread.
 */
public final class Owned {
    private static final System.Logger LOG = System.getLogger(Owned.class.getName());

    private final ArrayDeque<AutoCloseable> resources = new ArrayDeque<>();

    /** Takes ownership of a resource, and returns it. */
    <T extends AutoCloseable> T own(T resource) {
        resources.push(resource);
        return resource;
    }

    /**
     * Closes all of them once, also when some fail to close; the end of the process frees what a faulty GPU cannot. The
     * attention workers are the youngest resource. When one of them does not end, it may still use the KV pools, so
     * nothing is freed.
     */
    void closeAll() {
        if (resources.peek() instanceof HostTokenTracker workers) {
            workers.close();
            if (!workers.workers().ended()) {
                LOG.log(
                        System.Logger.Level.WARNING,
                        "an attention worker is stalled and may still use the KV pools, so nothing is freed; "
                                + "the end of the process frees it");
                return;
            }
        }
        List<AutoCloseable> all = List.copyOf(resources);
        resources.clear();
        try {
            Resources.closeAll(all);
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.DEBUG, "not freed: {0}", e.getMessage());
        }
    }
}
