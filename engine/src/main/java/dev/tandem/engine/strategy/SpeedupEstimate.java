package dev.tandem.engine.strategy;

import dev.tandem.engine.kv.KvCapacity;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.GpuKvLimit;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import java.util.Comparator;
import java.util.Set;
import java.util.function.ToDoubleFunction;

/**
 * Estimates the gain of a full host tier over gpu-only, with the best number of host tokens per step. The prediction of
 * a single step cannot show it: a prompt that goes to the host costs time now and pays later. The CPU's attention for
 * sub-batch 1 hides behind prompts too, so the estimate adds the prompt tokens that come with each output token. The
 * GPU's sequences count though their prompts are not computed. Where there is a target per token, only numbers of host
 * tokens count with which it is kept.
 *
 * <p>Owned by: engine thread.
 */
public final class SpeedupEstimate {
    /** Waiting requests whose prompts are taken as a sample of those to come. */
    private static final int SAMPLE = 32;
    /**
     * Min estimated gain of one batch over that of two sub-batches. While host and queue are short the estimate favours
     * one batch, and arriving requests then wait for its small host. Simulated on {@code a10g-16vcpu}, 1000/400, at 1.9
     * requests/s, 1 gave a mean time to the first token of 7.9 s and 772 output tokens/s, 2 gave 3.0 s and 790. With 1,
     * 300 requests of 1000/400 on an A10G g5.4xlarge have 493 tokens/s, with 2 512.
     */
    private static final double MIN_ADVANTAGE = 2;

    /**
     * Min gain, as a fraction of gpu-only, of waiting for same-layer tokens over those that hide. A smaller one is
     * within the error of predictions. Without it the guard began to offload reasoning on {@code h200-16sm-26k}, and
     * had 0.95 of GPU-only with one of three seeds (simulated).
     */
    private static final double MIN_GAIN_OF_WAITING = 0.05;

    private final StepPredictor predictor;
    private final Kind kind;
    /** Max expected seconds per token of a host sequence; infinite without a target. */
    private final double maxSecondsPerToken;

    /** The kind of step that a strategy makes with a full host. */
    public enum Kind {
        /** One batch with in-flight tokens. */
        IN_FLIGHT,
        /** Two sub-batches, and no KV on the GPU, so that prompts do not share a step with GPU decodes. */
        TWO_SUB_BATCHES,
        /** Two sub-batches, and prompts in the sub-batch of the GPU decodes. */
        TWO_SUB_BATCHES_WITH_PROMPTS,
        /** The same with host tokens in both sub-batches. */
        HOST_TOKENS_IN_BOTH,
        /** One batch with host tokens whose attention is computed beside the GPU's of the same layer. */
        SAME_LAYER
    }

    /**
     * Creates an estimate.
     *
     * @param predictor of the times of steps
     * @param kind of the steps with a full host
     * @param perTokenNanos target of a host sequence per token; 0 for none
     */
    public SpeedupEstimate(StepPredictor predictor, Kind kind, long perTokenNanos) {
        this.predictor = predictor;
        this.kind = kind;
        double max = switch (kind) {
            case IN_FLIGHT -> AsyncOverlap.MAX_JOIN_PACE;
            case SAME_LAYER -> TierRules.MAX_PACE;
            case TWO_SUB_BATCHES, TWO_SUB_BATCHES_WITH_PROMPTS, HOST_TOKENS_IN_BOTH ->
                TierRules.MAX_PACE_IN_SUB_BATCHES;
        };
        this.maxSecondsPerToken = perTokenNanos > 0 ? max * perTokenNanos / 1e9 : Double.POSITIVE_INFINITY;
    }

    /**
     * The best number of host tokens and its gain.
     *
     * @param kind of step
     * @param hostTokens per step, in flight or in the sub-batches
     * @param gain in tokens per second over gpu-only, as a fraction
     */
    public record Estimate(Kind kind, int hostTokens, double gain) {
        /**
         * The larger of this gain and that of a GPU with less KV, which is over gpu-only with a full GPU, without
         * prompts.
         */
        Estimate largerOf(GpuKvLimit limit) {
            return limit.gain() > gain
                    ? new Estimate(Kind.HOST_TOKENS_IN_BOTH, limit.hostTokens(), limit.gain())
                    : this;
        }

        /** The gain by which kinds of steps are compared. */
        double weighed() {
            return kind == Kind.SAME_LAYER ? gain / MIN_ADVANTAGE : gain;
        }
    }

    /**
     * The estimate of most gain once the GPU is full ({@link #whenFull}).
     *
     * @param kinds of steps, at least one
     * @param perTokenNanos target of a host sequence per token; 0 for none
     */
    public static Estimate best(StepPredictor predictor, Set<Kind> kinds, long perTokenNanos, StepDraft decodes) {
        return kinds.stream()
                .map(kind -> new SpeedupEstimate(predictor, kind, perTokenNanos).whenFull(decodes))
                .max(Comparator.comparingDouble(Estimate::weighed))
                .orElseThrow();
    }

    /**
     * Estimates the gain in the current state.
     *
     * @param gpuOnly the gpu-only draft of the current state
     */
    public Estimate of(StepDraft gpuOnly) {
        return of(gpuOnly, prompts(gpuOnly.state()), 0);
    }

    /**
     * Estimates the gain once the prompts with room on the GPU are computed (ADR 134). A GPU that is refilled decodes
     * few, and beside these a host seems to gain.
     *
     * @param decodes a draft of the current state without prompts
     */
    Estimate whenFull(StepDraft decodes) {
        return of(decodes, prompts(decodes.state()), Prefills.promptsWithRoom(decodes));
    }

    /**
     * The lower gain of the current state and of the time after the queue, when no prompts come with the outputs. Host
     * tokens hide behind prompts, so a host may gain only while there are any.
     */
    Estimate lastingGain(StepDraft gpuOnly) {
        return lower(cautiousGain(gpuOnly), of(gpuOnly, Prompts.NONE, 0));
    }

    /**
     * The lower gain of two lengths of output, until enough requests have ended to tell it: the guess, and the limits
     * of the requests (ADR 133).
     */
    Estimate cautiousGain(StepDraft gpuOnly) {
        Estimate expected = of(gpuOnly);
        if (gpuOnly.state().outputsKnown()) {
            return expected;
        }
        return lower(expected, of(gpuOnly, prompts(gpuOnly.state(), SpeedupEstimate::maxOutput), 0));
    }

    /** The estimate of less gain; the first if both have the same. */
    private static Estimate lower(Estimate first, Estimate second) {
        return second.gain() < first.gain() ? second : first;
    }

    /** @param room waiting prompts that have room on the GPU, and are not in the draft */
    private Estimate of(StepDraft gpuOnly, Prompts prompts, int room) {
        int decodes = gpuOnly.load(0).gpuRows();
        if (decodes == 0) {
            return new Estimate(kind, 0, 0);
        }
        int gpuRows = gpuOnly.gpuSequences() + room;
        long now = gpuOnly.load(0).gpuTokens();
        KvCapacity kv = gpuOnly.state().kv();
        long pool = (long) kv.pool(KvTier.GPU).size() * kv.blockTokens(KvTier.GPU);
        long gpuTokens = Math.max(now, Math.min(pool, now * gpuRows / decodes));
        int context = (int) Math.max(1, gpuTokens / gpuRows);
        int max = max(gpuOnly, context, gpuRows, room, 0);
        return switch (kind) {
            case IN_FLIGHT -> inFlightEstimate(gpuRows, gpuTokens, max, context, prompts);
            case TWO_SUB_BATCHES -> bestOf(gpuRows, gpuTokens, max, context, Prompts.NONE, predictor::pipelined);
            case TWO_SUB_BATCHES_WITH_PROMPTS ->
                bestOf(gpuRows, gpuTokens, max, context, prompts, predictor::pipelined);
            case HOST_TOKENS_IN_BOTH -> bestOf(gpuRows, gpuTokens, max, context, prompts, predictor::pipelinedInBoth);
            case SAME_LAYER -> {
                if (!predictor.hidesOneBesideDecodes(gpuOnly.load(0))) {
                    yield new Estimate(kind, 0, 0);
                }
                Estimate hidden = bestOf(gpuRows, gpuTokens, max, context, prompts, predictor::hiddenInLayer);
                Estimate waited = bestOf(gpuRows, gpuTokens, max, context, prompts, predictor::sameLayer);
                yield waited.gain() >= hidden.gain() + MIN_GAIN_OF_WAITING ? waited : hidden;
            }
        };
    }

    /**
     * The prompts that come with each output token, on average.
     *
     * @param tokens of prompts
     * @param pairs of prompt token and context token
     */
    private record Prompts(double tokens, double pairs) {
        static final Prompts NONE = new Prompts(0, 0);

        int tokens(double outputs) {
            return (int) (tokens * outputs);
        }

        long pairs(double outputs) {
            return (long) (pairs * outputs);
        }
    }

    /** As many output tokens as those that ended last had, and no more than the request's limit allows. */
    private static double expectedOutput(SchedulerState state, Sequence sequence) {
        return Math.clamp(state.meanLastOutputs(), 1, maxOutput(sequence));
    }

    private static int maxOutput(Sequence sequence) {
        return Math.max(1, sequence.limit() - sequence.length());
    }

    /** Mean expected output tokens of the requests that wait first; 0 while none waits. */
    static double expectedOutputs(SchedulerState state) {
        double outputs = 0;
        int count = 0;
        for (Sequence sequence : state.waiting().view()) {
            outputs += expectedOutput(state, sequence);
            if (++count == SAMPLE) {
                break;
            }
        }
        return count == 0 ? 0 : outputs / count;
    }

    /** Prompt tokens that come with each output token, on average. */
    static double promptTokensPerOutput(SchedulerState state) {
        return prompts(state).tokens();
    }

    /**
     * The prompts of the requests that wait first. Each is expected to have as much output as those that ended last,
     * and no more than its own limit allows: before requests have ended, their length is a guess.
     */
    private static Prompts prompts(SchedulerState state) {
        return prompts(state, sequence -> expectedOutput(state, sequence));
    }

    private static Prompts prompts(SchedulerState state, ToDoubleFunction<Sequence> output) {
        double tokens = 0;
        double pairs = 0;
        double outputs = 0;
        int count = 0;
        for (Sequence sequence : state.waiting().view()) {
            int length = sequence.length();
            int context = state.context(sequence);
            tokens += length;
            pairs += context * (length - 0.5 * context);
            outputs += output.applyAsDouble(sequence);
            if (++count == SAMPLE) {
                break;
            }
        }
        return count == 0 ? Prompts.NONE : new Prompts(tokens / outputs, pairs / outputs);
    }

    /** Predicts a step with GPU decodes, host tokens of one context, and prompt tokens. */
    private interface Seconds {
        double of(int rows, long tokens, int hostTokens, int hostContext, int promptRows, long pairs);
    }

    /**
     * Output tokens per second with a number of GPU decodes and the best number of host tokens, none included, all of
     * one context, in two sub-batches or in one batch by the kind. Host tokens are of sequences that are on the host,
     * that wait, or that the GPU holds beyond that number.
     *
     * @param decodes a draft with the GPU's decodes of the current state
     */
    Rate rate(StepDraft decodes, int gpuRows, int context) {
        long gpuTokens = (long) gpuRows * context;
        int others = decodes.gpuSequences() - gpuRows;
        int max = max(decodes, context, gpuRows, Math.max(0, -others), Math.max(0, others));
        Seconds step = switch (kind) {
            case SAME_LAYER -> predictor::sameLayer;
            case HOST_TOKENS_IN_BOTH -> predictor::pipelinedInBoth;
            case IN_FLIGHT, TWO_SUB_BATCHES, TWO_SUB_BATCHES_WITH_PROMPTS ->
                throw new IllegalStateException("no rate of " + kind);
        };
        Estimate best = bestOf(gpuRows, gpuTokens, max, context, Prompts.NONE, step);
        return new Rate(best.hostTokens(), gpuOnly(gpuRows, gpuTokens, Prompts.NONE) * (1 + best.gain()));
    }

    /** Output tokens per second of gpu-only with a number of GPU decodes of one context, without prompts. */
    double gpuOnlyRate(int gpuRows, int context) {
        return gpuOnly(gpuRows, (long) gpuRows * context, Prompts.NONE);
    }

    /**
     * The best number of host tokens beside some GPU decodes.
     *
     * @param hostTokens per step
     * @param rate output tokens per second
     */
    record Rate(int hostTokens, double rate) {}

    /** Where the GPU may wait for the CPU, tries numbers of host tokens in steps of an eighth. */
    private Estimate bestOf(int gpuRows, long gpuTokens, int max, int context, Prompts prompts, Seconds step) {
        double baseline = gpuOnly(gpuRows, gpuTokens, prompts);
        Estimate best = new Estimate(kind, 0, 0);
        for (int rows = 1; rows <= max; rows += Math.max(1, rows / 8)) {
            int outputs = gpuRows + rows;
            double seconds =
                    step.of(gpuRows, gpuTokens, rows, context, prompts.tokens(outputs), prompts.pairs(outputs));
            if (seconds > maxSecondsPerToken) {
                return best; // more host tokens make no step shorter
            }
            double gain = outputs / seconds / baseline - 1;
            best = gain > best.gain() ? new Estimate(kind, rows, gain) : best;
        }
        return best;
    }

    /** With in-flight tokens, takes the max that the CPU keeps up with: more would only advance more slowly. */
    private Estimate inFlightEstimate(int gpuRows, long gpuTokens, int max, int context, Prompts prompts) {
        int low = 0;
        int high = max;
        while (low < high) {
            int middle = (low + high + 1) / 2;
            double step = inFlight(gpuRows, gpuTokens, middle, context, prompts);
            if (predictor.cost().inFlightAttention(middle, (long) middle * context) <= step) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        double seconds = inFlight(gpuRows, gpuTokens, low, context, prompts);
        if (low == 0 || predictor.cost().layers() * seconds > maxSecondsPerToken) {
            return new Estimate(kind, 0, 0);
        }
        double rate = (gpuRows + (double) low / predictor.cost().layers()) / seconds;
        return new Estimate(kind, low, rate / gpuOnly(gpuRows, gpuTokens, prompts) - 1);
    }

    /**
     * Max host tokens: of sequences that are on the host, or wait and fit there.
     *
     * @param onGpu sequences that the GPU will have
     * @param room how many of these wait, first in the queue
     * @param moved sequences that move from the GPU to the host
     */
    private static int max(StepDraft gpuOnly, int context, int onGpu, int room, int moved) {
        SchedulerState state = gpuOnly.state();
        int onHost = state.host().size() + state.inFlight().size() + moved;
        int blocks =
                state.kv().pool(KvTier.HOST).size() / Math.max(1, state.kv().maxHeld(KvTier.HOST, context));
        int freeSequences = gpuOnly.budget().maxSequences() - onGpu;
        int waiting = -room;
        for (Sequence sequence : state.waiting().view()) {
            if (gpuOnly.fitsHost(sequence) && ++waiting + onHost >= blocks) {
                break;
            }
        }
        return Math.max(0, Math.min(Math.min(blocks, freeSequences), onHost + Math.max(0, waiting)));
    }

    /** Tokens per second of gpu-only. */
    private double gpuOnly(int gpuRows, long gpuTokens, Prompts prompts) {
        return gpuRows / predictor.mixed(gpuRows, gpuTokens, prompts.tokens(gpuRows), prompts.pairs(gpuRows));
    }

    private double inFlight(int gpuRows, long gpuTokens, int rows, int context, Prompts prompts) {
        int layers = predictor.cost().layers();
        int slots = AsyncOverlap.slotsFor(rows, layers);
        double outputs = gpuRows + (double) rows / layers;
        return predictor.async(
                gpuRows,
                gpuTokens,
                rows,
                (long) rows * context,
                slots,
                prompts.tokens(outputs),
                prompts.pairs(outputs));
    }
}
