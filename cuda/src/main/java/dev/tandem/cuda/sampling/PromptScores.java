package dev.tandem.cuda.sampling;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.ScoredRows;
import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.engine.sampling.SamplingException;
import dev.tandem.engine.step.Chunk;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * The rows of prompts that a step scores: their numbers, the tokens that follow them, and the results in pinned memory.
 *
 * <p>There is one set, because no step is launched while the result of one that scores is outstanding.
 *
 * <p>Owned by: engine thread.
 */
public final class PromptScores implements AutoCloseable {
    private static final int TARGET_INTS = 2;

    private final ModelShape shape;
    private final int max;
    private final DeviceBuffer device;
    private final PinnedBuffer pinned;
    private final PinnedBuffer results;
    private int count;

    /**
     * The scored rows of a chunk.
     *
     * @param index of its first row among those of the step
     * @param rows that are scored, from the chunk's first on
     */
    public record Scored(Chunk chunk, int index, int rows) {}

    /** @param rows of a step at most */
    public PromptScores(Device owner, ModelShape shape, int rows) {
        this.shape = shape;
        this.max = (rows + 1) / 2 * 2; // targets are aligned to 8 bytes
        long bytes = 4L * max * (1 + TARGET_INTS);
        List<AutoCloseable> opened = new ArrayList<>();
        try {
            this.device = owner.allocate(bytes, "rows of prompts that are scored");
            opened.add(device);
            this.pinned = owner.pinned(bytes, "rows of prompts that are scored");
            opened.add(pinned);
            this.results = owner.pinned(4L * max * KernelConstants.SCORE_WORDS, "scores of prompts");
        } catch (RuntimeException | Error e) {
            Resources.closeAfter(e, opened);
            throw e;
        }
    }

    /** Starts the next step's rows. */
    public void clear() {
        count = 0;
    }

    /**
     * Adds the rows of a sub-batch's chunks.
     *
     * @param chunks in the order of their rows
     * @param scored receives the chunks with scored rows
     * @return those rows
     */
    public ScoredRows add(List<Chunk> chunks, List<Scored> scored) {
        int first = count;
        int row = 0;
        for (Chunk chunk : chunks) {
            int index = count;
            for (int i = 0; i < chunk.rows() && chunk.scores(i); i++) {
                PromptScorer scorer = chunk.scorer().orElseThrow();
                set(count, row + i);
                set(max + TARGET_INTS * count, scorer.token(chunk.start() + i + 1));
                set(max + TARGET_INTS * count + 1, scorer.alternatives());
                count++;
            }
            if (count > index) {
                scored.add(new Scored(chunk, index, count - index));
            }
            row += chunk.rows();
        }
        return all().part(first, count - first);
    }

    private ScoredRows all() {
        return new ScoredRows(device.address(), device.address() + 4L * max, results.address(), count);
    }

    private void set(int at, int value) {
        pinned.memory().setAtIndex(JAVA_INT, at, value);
    }

    /** Enqueues the upload of the rows that were added. */
    public void upload(Stream stream) {
        if (count > 0) {
            stream.upload(device, 0, pinned.memory(), 4L * count);
            long targets = 4L * max;
            stream.upload(device, targets, pinned.memory().asSlice(targets), 4L * TARGET_INTS * count);
        }
    }

    /**
     * Gives the scores of a step that has ended to the chunk's scorer.
     *
     * @throws SamplingException when logits are NaN or infinite
     */
    public void read(Scored scored) {
        PromptScorer scorer = scored.chunk().scorer().orElseThrow();
        for (int i = 0; i < scored.rows(); i++) {
            long at = 4L * KernelConstants.SCORE_WORDS * (scored.index() + i);
            MemorySegment words = results.memory().asSlice(at, 4L * KernelConstants.SCORE_WORDS);
            int rank = words.getAtIndex(JAVA_INT, 1);
            if (rank == 0) {
                throw SampleReport.notFinite(shape);
            }
            scorer.scored(
                    scored.chunk().start() + i,
                    ReportedLogprobs.read(words.get(JAVA_FLOAT, 0), words.asSlice(8), scorer.alternatives()),
                    rank);
        }
    }

    @Override
    public void close() {
        Resources.closeAll(device, pinned, results);
    }
}
