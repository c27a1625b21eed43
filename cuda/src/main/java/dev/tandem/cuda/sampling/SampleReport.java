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
import dev.tandem.engine.sampling.SamplingException;
import dev.tandem.engine.sampling.SamplingScratch;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.StepResult;
import dev.tandem.model.config.DataType;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * The sampled tokens and log-probabilities that steps report, in pinned memory, per step of the clock's ring. Downloads
 * a row's logits where the engine samples on the host.
 *
 * <p>Owned by: engine thread.
 */
public final class SampleReport implements AutoCloseable {
    private static final String OVERFLOW = "; values beyond 65,504 overflow in float16: use --dtype bfloat16";

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
     * @param steps reports kept at a time
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

    /**
     * The sampled tokens of the step in a slot of the clock's ring, then the host tokens that passed its last layer.
     */
    public MemorySegment of(int slot) {
        return tokens.memory()
                .asSlice(
                        tokens.memory().byteSize() / steps * slot,
                        tokens.memory().byteSize() / steps);
    }

    /** Address to which that step reports log-probabilities. */
    public long logprobs(int slot) {
        return logprobs.address(slot);
    }

    /**
     * Takes the token of a sampled row. When the row's logits or its sampler fail, that sequence alone is lost.
     *
     * @param draw how the GPU chose the token; empty when the engine samples, which needs that no later step has run
     * @throws CudaException when the GPU failed
     */
    public void take(
            long sequence,
            TokenSampler sampler,
            Optional<TokenSampler.Draw> draw,
            int slot,
            int index,
            AttentionSite site,
            List<StepResult.Sampled> sampled,
            List<StepResult.Lost> lost) {
        try {
            sampled.add(new StepResult.Sampled(sequence, choice(sampler, draw, slot, index), site));
        } catch (CudaException e) {
            throw e;
        } catch (ExecutorException | SamplingException e) {
            String message = String.valueOf(e.getMessage());
            lost.add(new StepResult.Lost(sequence, StepResult.Cause.SAMPLING, message, false));
        } catch (RuntimeException e) {
            lost.add(
                    new StepResult.Lost(sequence, StepResult.Cause.SAMPLING, "sampling its token failed: " + e, false));
        }
    }

    private Choice choice(TokenSampler sampler, Optional<TokenSampler.Draw> draw, int slot, int index) {
        int token = of(slot).getAtIndex(JAVA_INT, index);
        if (token < 0) {
            throw notFinite(shape);
        }
        if (draw.isPresent()) {
            return sampler.chosen(token, logprobs.read(slot, index, draw.get().logprobs()));
        }
        read(index);
        return sampler.choose(rowLogits, 0, vocabulary, scratch);
    }

    static SamplingException notFinite(ModelShape shape) {
        return new SamplingException(TokenSampler.NOT_FINITE + (shape.type() == DataType.FLOAT16 ? OVERFLOW : ""));
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
