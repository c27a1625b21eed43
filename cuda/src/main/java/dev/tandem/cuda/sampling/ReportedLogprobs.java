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
 * Log-probabilities that steps report (sample.cu). Per step of the clock's ring and sampled row: that of the sampled
 * token, then the ids of the most probable tokens, then their log-probabilities.
 *
 * <p>Owned by: engine thread.
 */
final class ReportedLogprobs implements AutoCloseable {
    private static final int MAX = SamplingParams.MAX_LOGPROBS;
    private static final int WORDS = 1 + 2 * MAX;

    private final PinnedBuffer pinned;
    private final int rows;

    /** @param steps reports kept at a time */
    ReportedLogprobs(Device device, int rows, int steps) {
        this.rows = rows;
        this.pinned = device.pinned(4L * WORDS * rows * steps, "log-probabilities");
    }

    /** Address to which the step in a slot of the clock's ring reports. */
    long address(int slot) {
        return pinned.address() + 4L * WORDS * rows * slot;
    }

    /** @param alternatives requested; -1 when no log-probabilities are requested */
    Optional<TokenLogprobs> read(int slot, int row, int alternatives) {
        if (alternatives < 0) {
            return Optional.empty();
        }
        MemorySegment words = pinned.memory().asSlice(4L * WORDS * (rows * slot + row), 4L * WORDS);
        return Optional.of(read(words.get(JAVA_FLOAT, 0), words.asSlice(4), alternatives));
    }

    /**
     * Reads the log-probabilities of a row.
     *
     * @param own that of its token
     * @param list ids and log-probabilities as {@code mostProbable} of sample.cu writes them
     * @param alternatives that were requested
     */
    static TokenLogprobs read(float own, MemorySegment list, int alternatives) {
        int[] tokens = list.asSlice(0, 4L * alternatives).toArray(JAVA_INT);
        float[] logprobs = list.asSlice(4L * MAX, 4L * alternatives).toArray(JAVA_FLOAT);
        return new TokenLogprobs(own, tokens, logprobs);
    }

    @Override
    public void close() {
        pinned.close();
    }
}
