package dev.tandem.engine.strategy;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;

/**
 * What a host tier would bring once it is full: steps with as many host tokens as pay, beside those of the GPU. One
 * step cannot tell, for a prompt that goes to the host costs now and pays later. Rows of a second sub-batch hide behind
 * prompts too, so those that come with each token count where the first has them; in-flight tokens are weighed in
 * decode steps.
 *
 * <p>Owned by: engine thread.
 */
public final class SpeedupEstimate {
    /** Waiting requests whose prompts stand for those that come. */
    private static final int SAMPLE = 32;

    private final StepPredictor predictor;
    private final Kind kind;

    /** What a strategy's steps are. */
    public enum Kind {
        /** One batch, host tokens in flight. */
        IN_FLIGHT,
        /** Two sub-batches; without KV on the GPU, so that prompts are not beside its rows. */
        TWO_PASSES,
        /** Two sub-batches, prompts beside the GPU's rows. */
        TWO_PASSES_WITH_PROMPTS
    }

    /** @param kind what the steps of a full host are */
    public SpeedupEstimate(StepPredictor predictor, Kind kind) {
        this.predictor = predictor;
        this.kind = kind;
    }

    /**
     * @param rows host tokens that there would be
     * @param gain in tokens per second over gpu-only, as a share
     */
    public record Outlook(int rows, double gain) {}

    /** @param plain the GPU-only step at hand */
    public Outlook of(StepDraft plain) {
        SchedulerState state = plain.state();
        int gpuRows = plain.load(0).gpuRows();
        if (gpuRows == 0) {
            return new Outlook(0, 0);
        }
        long gpuTokens = plain.load(0).gpuTokens();
        int context = (int) Math.max(1, gpuTokens / gpuRows);
        int max = max(state, plain, context);
        return switch (kind) {
            case IN_FLIGHT -> full(gpuRows, gpuTokens, max, context, gpuRows / predictor.decodes(gpuRows, gpuTokens));
            case TWO_PASSES -> best(gpuRows, gpuTokens, max, context, new Prompts(0, 0));
            case TWO_PASSES_WITH_PROMPTS -> best(gpuRows, gpuTokens, max, context, prompts(state));
        };
    }

    /**
     * Prompts that come with each token put out.
     *
     * @param tokens rows
     * @param pairs of a row and the context that it attends to
     */
    private record Prompts(double tokens, double pairs) {
        int tokens(int outputs) {
            return (int) (tokens * outputs);
        }

        long pairs(int outputs) {
            return (long) (pairs * outputs);
        }
    }

    private static Prompts prompts(SchedulerState state) {
        double tokens = 0;
        double pairs = 0;
        int count = 0;
        for (Sequence sequence : state.waiting().view()) {
            tokens += sequence.length();
            pairs += 0.5 * sequence.length() * sequence.length();
            if (++count == SAMPLE) {
                break;
            }
        }
        double outputs = Math.max(1, count) * Math.max(1, state.meanOutput());
        return new Prompts(tokens / outputs, pairs / outputs);
    }

    /** Of two sub-batches one may wait for the other: the best number of rows, within an eighth. */
    private Outlook best(int gpuRows, long gpuTokens, int max, int context, Prompts prompts) {
        double alone = gpuRows / predictor.mixed(gpuRows, gpuTokens, prompts.tokens(gpuRows), prompts.pairs(gpuRows));
        Outlook best = new Outlook(0, 0);
        for (int rows = 1; rows <= max; rows += Math.max(1, rows / 8)) {
            int outputs = gpuRows + rows;
            double seconds = predictor.pipelined(
                    gpuRows, gpuTokens, rows, context, prompts.tokens(outputs), prompts.pairs(outputs));
            double gain = outputs / seconds / alone - 1;
            best = gain > best.gain() ? new Outlook(rows, gain) : best;
        }
        return best;
    }

    /** In flight, the max rows that the CPU keeps up with: more would only advance more slowly. */
    private Outlook full(int gpuRows, long gpuTokens, int max, int context, double alone) {
        int min = 0;
        while (min < max) {
            int middle = (min + max + 1) / 2;
            double step = inFlight(gpuRows, gpuTokens, middle, context);
            if (predictor.cost().inFlightAttention(middle, (long) middle * context) <= step) {
                min = middle;
            } else {
                max = middle - 1;
            }
        }
        double together =
                (gpuRows + (double) min / predictor.cost().layers()) / inFlight(gpuRows, gpuTokens, min, context);
        return new Outlook(min, min == 0 ? 0 : together / alone - 1);
    }

    /** Rows that the host has or could have now. */
    private static int max(SchedulerState state, StepDraft plain, int context) {
        int here = state.host().size() + state.inFlight().size();
        int blocks =
                state.kv().pool(KvTier.HOST).size() / Math.max(1, state.kv().blocksFor(KvTier.HOST, context));
        int freeSequences = plain.budget().maxSequences() - state.gpu().size();
        int waiting = 0;
        for (Sequence sequence : state.waiting().view()) {
            if (plain.fitsHost(sequence) && ++waiting + here >= blocks) {
                break;
            }
        }
        return Math.max(0, Math.min(Math.min(blocks, freeSequences), here + waiting));
    }

    private double inFlight(int gpuRows, long gpuTokens, int rows, int context) {
        int slots = AsyncOverlap.evenly(rows, predictor.cost().layers());
        return predictor.async(gpuRows, gpuTokens, rows, (long) rows * context, slots);
    }
}
