package dev.tandem.cuda.sampling;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.sampling.Choice;
import dev.tandem.engine.sampling.SamplingScratch;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.StepResult;
import dev.tandem.model.config.DataType;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * What steps report of the rows that they sample: tokens and their log-probabilities, for each step of the clock's
 * ring, in pinned memory; and a row's logits, where the engine chooses.
 *
 * <p>Owned by: engine thread.
 */
public final class SampleReport implements AutoCloseable {
    public static final String NOT_FINITE = "the model produced logits that are NaN or infinite";
    private static final String OVERFLOW =
            "; values beyond 65,504 overflow in float16: --dtype bfloat16 has " + "room for them";

    private final Stream stream;
    /** [sampled rows, padded vocabulary] of the last step. */
    private final DeviceBuffer logits;

    private final ModelShape shape;
    private final int vocabulary;
    private final int steps;
    private final PinnedBuffer tokens;
    private final ReportedLogprobs logprobs;
    private final PinnedBuffer row;
    private final float[] rowLogits;
    private final SamplingScratch scratch = new SamplingScratch();

    /**
     * @param max rows that a step samples, and as many again for the in-flight tokens of its slots
     * @param steps whose reports are kept at a time
     */
    public SampleReport(Device device, Stream stream, DeviceBuffer logits, ModelShape shape, int max, int steps) {
        this.stream = stream;
        this.logits = logits;
        this.shape = shape;
        this.vocabulary = shape.config().vocabulary();
        this.steps = steps;
        this.tokens = device.pinned(4L * steps * max, "sampled tokens");
        this.logprobs = new ReportedLogprobs(device, max, steps);
        this.row = device.pinned(4L * shape.vocabulary(), "a row of logits");
        this.rowLogits = new float[shape.vocabulary()];
    }

    /** Tokens of the step of a slot of the clock's ring, then who sits in its slots after the last layer. */
    public MemorySegment of(int slot) {
        return tokens.memory()
                .asSlice(
                        tokens.memory().byteSize() / steps * slot,
                        tokens.memory().byteSize() / steps);
    }

    /** Where that step reports log-probabilities. */
    public long logprobs(int slot) {
        return logprobs.address(slot);
    }

    /**
     * Takes the token of a sampled row. Whatever is wrong with the row's logits or its sampler concerns its sequence
     * alone, which is lost.
     *
     * @param draw how the GPU chose it; empty when the engine does, which a step that ran since makes impossible
     * @throws CudaException when the GPU failed
     */
    public void take(
            long sequence,
            TokenSampler sampler,
            Optional<TokenSampler.Draw> draw,
            int slot,
            int index,
            List<StepResult.Sampled> sampled,
            List<StepResult.Lost> lost) {
        try {
            sampled.add(new StepResult.Sampled(sequence, choice(sampler, draw, slot, index)));
        } catch (CudaException e) {
            throw e;
        } catch (ExecutorException e) {
            lost.add(new StepResult.Lost(sequence, StepResult.Cause.SAMPLING, e.getMessage(), false));
        } catch (RuntimeException e) {
            lost.add(
                    new StepResult.Lost(sequence, StepResult.Cause.SAMPLING, "choosing its token failed: " + e, false));
        }
    }

    private Choice choice(TokenSampler sampler, Optional<TokenSampler.Draw> draw, int slot, int index) {
        int token = of(slot).getAtIndex(JAVA_INT, index);
        if (token < 0) {
            throw new ExecutorException(NOT_FINITE + (shape.type() == DataType.FLOAT16 ? OVERFLOW : ""));
        }
        if (draw.isPresent()) {
            return sampler.chosen(token, logprobs.read(slot, index, draw.get().logprobs()));
        }
        read(index);
        return sampler.choose(rowLogits, 0, vocabulary, scratch);
    }

    /** The logits of a row sampled in the last step. */
    public float[] logits(int index) {
        read(index);
        return Arrays.copyOf(rowLogits, vocabulary);
    }

    private void read(int index) {
        stream.download(row.memory(), logits, 4L * index * shape.vocabulary(), 4L * shape.vocabulary());
        stream.synchronise();
        MemorySegment.copy(row.memory(), JAVA_FLOAT, 0, rowLogits, 0, rowLogits.length);
    }

    @Override
    public void close() {
        Resources.closeAll(tokens, logprobs, row);
    }
}
