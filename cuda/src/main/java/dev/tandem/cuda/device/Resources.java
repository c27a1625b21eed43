package dev.tandem.cuda.device;

import java.util.Arrays;
import java.util.Collection;

/** Closes several resources together. */
public final class Resources {
    private Resources() {}

    /**
     * Closes all of them in order; when one fails, the others are closed all the same.
     *
     * @throws RuntimeException the first failure, with the others as suppressed exceptions
     */
    public static void closeAll(Collection<? extends AutoCloseable> resources) {
        RuntimeException first = null;
        for (AutoCloseable resource : resources) {
            try {
                resource.close();
            } catch (Exception e) {
                RuntimeException failure =
                        e instanceof RuntimeException unchecked ? unchecked : new IllegalStateException(e);
                if (first == null) {
                    first = failure;
                } else {
                    first.addSuppressed(failure);
                }
            }
        }
        if (first != null) {
            throw first;
        }
    }

    /** Closes all of them in order. */
    public static void closeAll(AutoCloseable... resources) {
        closeAll(Arrays.asList(resources));
    }

    /** Closes all of them in order after a failure, which keeps their own failures as suppressed exceptions. */
    public static void closeAfter(Throwable failure, Collection<? extends AutoCloseable> resources) {
        try {
            closeAll(resources);
        } catch (RuntimeException e) {
            failure.addSuppressed(e);
        }
    }
}
