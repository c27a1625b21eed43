package dev.tandem.cuda.sampling;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.sampling.GrammarMatcher;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * The bitmasks of a step's rows whose requests have a grammar: the numbers of these rows, then one bitmask each.
 *
 * <p>There is one set, because a step with bitmasks samples only after the step before has ended.
 *
 * <p>Owned by: engine thread.
 */
public final class Bitmasks implements AutoCloseable {
    /** Of all bitmasks; 256 rows of a vocabulary of 131,072. */
    private static final int MAX_BYTES = 4 << 20;

    private final int max;
    private final int[] bitmask;
    private final DeviceBuffer device;
    private final PinnedBuffer pinned;
    private int count;

    /** @param rows that a step samples at most */
    public Bitmasks(Device owner, ModelShape shape, int rows) {
        this.bitmask = new int[GrammarMatcher.words(shape.vocabulary())];
        this.max = Math.clamp(MAX_BYTES / (4L * bitmask.length), 1, rows);
        long bytes = 4L * max * (1 + bitmask.length);
        this.device = owner.allocate(bytes, "bitmasks of grammars");
        try {
            this.pinned = owner.pinned(bytes, "bitmasks of grammars");
        } catch (RuntimeException | Error e) {
            Resources.closeAfter(e, List.of(device));
            throw e;
        }
    }

    /** Max rows of a step. */
    public int max() {
        return max;
    }

    /** Starts the next step's bitmasks. */
    public void clear() {
        count = 0;
    }

    /** Adds a sampled row, and waits for its bitmask where a thread still computes it. */
    public void add(int row, GrammarMatcher matcher) {
        matcher.fillBitmask(bitmask);
        pinned.memory().setAtIndex(JAVA_INT, count, row);
        MemorySegment.copy(
                bitmask, 0, pinned.memory(), JAVA_INT, 4L * (max + (long) count * bitmask.length), bitmask.length);
        count++;
    }

    /** Rows added since {@link #clear}. */
    public int count() {
        return count;
    }

    /** Enqueues the upload of the rows that were added. */
    public void upload(Stream stream) {
        stream.upload(device, 0, pinned.memory(), 4L * (max + (long) count * bitmask.length));
    }

    /** Address of [count] row numbers. */
    public long rows() {
        return device.address();
    }

    /** Address of [count] bitmasks. */
    public long bitmasks() {
        return device.address() + 4L * max;
    }

    @Override
    public void close() {
        Resources.closeAll(device, pinned);
    }
}
