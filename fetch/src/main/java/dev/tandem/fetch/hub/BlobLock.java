package dev.tandem.fetch.hub;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;

/**
 * An exclusive lock on a lock file, by {@code flock}, as the hub's Python client locks it. Java's own file locks are
 * {@code fcntl} locks, which Linux keeps apart from those. The lock ends with the process at the latest, and the lock
 * file stays.
 *
 * <p>Owned by: the thread that took it. Locks exclude threads of one process, too.
 */
final class BlobLock implements AutoCloseable {
    /** Values from fcntl.h and sys/file.h, the same on Linux and macOS. */
    private static final int READ_WRITE = 2;

    private static final int EXCLUSIVE = 2;
    private static final int NOT_BLOCKING = 4;

    /** A call that waits for the lock could not be interrupted. The hub's Python client polls, too. */
    private static final Duration POLL = Duration.ofMillis(100);

    private final int descriptor;

    private BlobLock(int descriptor) {
        this.descriptor = descriptor;
    }

    /**
     * Takes the lock and creates its file; waits while another holds it.
     *
     * @param waiting runs once if the lock must be waited for
     */
    static BlobLock take(Path file, Runnable waiting) throws IOException, InterruptedException {
        Files.createDirectories(file.getParent());
        boolean told = false;
        while (true) {
            if (!Files.exists(file)) {
                Files.write(file, new byte[0], StandardOpenOption.CREATE);
            }
            int descriptor = Native.open(file);
            if (descriptor < 0) {
                throw new IOException("the lock file " + file + " cannot be opened");
            }
            while (Native.flock(descriptor, EXCLUSIVE | NOT_BLOCKING) != 0) {
                if (!told) {
                    waiting.run();
                    told = true;
                }
                try {
                    Thread.sleep(POLL);
                } catch (InterruptedException e) {
                    Native.close(descriptor);
                    throw e;
                }
            }
            if (Files.exists(file) && Files.isSameFile(file, Path.of("/dev/fd/" + descriptor))) {
                return new BlobLock(descriptor);
            }
            Native.close(descriptor); // another process deleted the file meanwhile; its next user locks a new one
        }
    }

    @Override
    public void close() {
        Native.close(descriptor);
    }

    /** Calls of the C library, linked at the first download only. */
    private static final class Native {
        private static final Linker LINKER = Linker.nativeLinker();
        private static final MethodHandle OPEN =
                link("open", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.JAVA_INT));
        private static final MethodHandle FLOCK =
                link("flock", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));
        private static final MethodHandle CLOSE =
                link("close", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));

        private static MethodHandle link(String name, FunctionDescriptor form) {
            return LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow(name), form);
        }

        static int open(Path file) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment name = arena.allocateFrom(file.toString());
                return (int) OPEN.invokeExact(name, READ_WRITE);
            } catch (Throwable e) {
                throw failed("open", e);
            }
        }

        static int flock(int descriptor, int operation) {
            try {
                return (int) FLOCK.invokeExact(descriptor, operation);
            } catch (Throwable e) {
                throw failed("flock", e);
            }
        }

        static void close(int descriptor) {
            try {
                int _ = (int) CLOSE.invokeExact(descriptor);
            } catch (Throwable e) {
                throw failed("close", e);
            }
        }

        private static IllegalStateException failed(String function, Throwable thrown) {
            return new IllegalStateException("the call of " + function + " failed", thrown);
        }
    }
}
