package dev.tandem.cuda.sampling;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import java.lang.foreign.MemorySegment;
import java.util.Optional;

/**
 * Log-probabilities as steps report them, for each step of the clock's ring: [sampled rows] of the chosen token's, then
 * ids of the best tokens, then theirs (sample.cu).
 *
 * <p>Owned by: engine thread.
 */
final class ReportedLogprobs implements AutoCloseable {
    private static final int MAX = SamplingParams.MAX_LOGPROBS;
    private static final int WORDS = 1 + 2 * MAX;

    private final PinnedBuffer pinned;
    private final int rows;

    /** @param steps whose reports are kept at a time */
    ReportedLogprobs(Device device, int rows, int steps) {
        this.rows = rows;
        this.pinned = device.pinned(4L * WORDS * rows * steps, "log-probabilities");
    }

    /** Where the step of a slot of the clock's ring reports. */
    long address(int slot) {
        return pinned.address() + 4L * WORDS * rows * slot;
    }

    /** @param alternatives that were asked for; -1 for nothing at all */
    Optional<TokenLogprobs> read(int slot, int row, int alternatives) {
        if (alternatives < 0) {
            return Optional.empty();
        }
        MemorySegment words = pinned.memory().asSlice(4L * WORDS * (rows * slot + row), 4L * WORDS);
        int[] tokens = words.asSlice(4, 4L * alternatives).toArray(JAVA_INT);
        float[] logprobs = words.asSlice(4 + 4L * MAX, 4L * alternatives).toArray(JAVA_FLOAT);
        return Optional.of(new TokenLogprobs(words.get(JAVA_FLOAT, 0), tokens, logprobs));
    }

    @Override
    public void close() {
        pinned.close();
    }
}
