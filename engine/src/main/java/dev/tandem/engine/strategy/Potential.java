package dev.tandem.engine.strategy;

import dev.tandem.engine.kv.Place;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;

/**
 * What a host tier would bring once it is full: decode steps with as many host rows as the CPU keeps up with, beside those of the
 * GPU. One step cannot tell, for a prompt that lands on the host costs now and pays later.
 *
 * <p>Owned by: engine thread.
 */
final class Potential {
    private final StepPredictor predictor;
    private final boolean pipelines;

    /** @param pipelines whether the strategy's steps have two sub-batches, rather than rows in flight */
    Potential(StepPredictor predictor, boolean pipelines) {
        this.predictor = predictor;
        this.pipelines = pipelines;
    }

    /**
     * @param rows host rows that there would be
     * @param gain in tokens a second over GPU-only, as a share
     */
    record Outlook(int rows, double gain) {}

    /** @param plain the GPU-only step at hand */
    Outlook of(StepDraft plain) {
        SchedulerState state = plain.state();
        int gpuRows = plain.load(0).gpuRows();
        if (gpuRows == 0) {
            return new Outlook(0, 0);
        }
        long gpuTokens = plain.load(0).gpuTokens();
        int context = (int) Math.max(1, gpuTokens / gpuRows);
        double alone = gpuRows / predictor.decodes(gpuRows, gpuTokens);
        int least = 0;
        int most = most(state, plain, context);
        while (least < most) { // the most rows that the CPU keeps up with
            int middle = (least + most + 1) / 2;
            if (keepsUp(gpuRows, gpuTokens, middle, context)) {
                least = middle;
            } else {
                most = middle - 1;
            }
        }
        double together = pipelines
                ? (gpuRows + least) / predictor.pipelined(gpuRows, gpuTokens, least, context)
                : (gpuRows + (double) least / predictor.cost().layers()) / flying(gpuRows, gpuTokens, least, context);
        return new Outlook(least, least == 0 ? 0 : together / alone - 1);
    }

    /** Rows that the host has or could have now. */
    private static int most(SchedulerState state, StepDraft plain, int context) {
        int here = state.host().size() + state.inFlight().size();
        int blocks = state.kv().pool(Place.HOST).size() / Math.max(1, state.kv().blocksFor(Place.HOST, context));
        int places = plain.budget().maxSequences() - state.gpu().size();
        int waiting = 0;
        for (Sequence sequence : state.waiting().view()) {
            if (plain.fitsHost(sequence) && ++waiting + here >= blocks) {
                break;
            }
        }
        return Math.max(0, Math.min(Math.min(blocks, places), here + waiting));
    }

    private boolean keepsUp(int gpuRows, long gpuTokens, int rows, int context) {
        double attention = predictor.cost().cpuAttention(rows, (long) rows * context);
        return attention <= (pipelines ? predictor.cost().linear(gpuRows) : flying(gpuRows, gpuTokens, rows, context));
    }

    private double flying(int gpuRows, long gpuTokens, int rows, int context) {
        int slots = AsyncOverlap.evenly(rows, predictor.cost().layers());
        return predictor.async(gpuRows, gpuTokens, rows, (long) rows * context, slots);
    }
}
