package dev.tandem.engine.strategy.select;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.StepPredictor.Work;

/**
 * Whether requests need more than the GPU alone can do. The host raises throughput and makes its requests slow, so it
 * pays where they would pile up without it. Below that, a queue is short and soon over, and waiting in it takes less
 * time than decoding on the host.
 *
 * <p>The demand is the work of the requests that arrive per second over what the GPU alone does in a second. It needs
 * the host above {@link #MAX_DEMAND}, and no longer below {@link #MIN_DEMAND}. Means lag behind a surge, so a long
 * queue needs it too. Before the demand is known, a request needs it that has waited for {@link #MIN_WAIT}, and for as
 * long as requests stay on the GPU.
 *
 * <p>Owned by: engine thread.
 */
final class GpuDemand {
    /** Demand from which the host is needed: estimates over some hundred requests are 5 % off. */
    private static final double MAX_DEMAND = 1.05;
    /** Demand below which the host is no longer needed. */
    private static final double MIN_DEMAND = 0.95;
    /**
     * Max requests that wait where demand is below 1. With a demand of 0.9, a queue at a single server is shorter than
     * 44 in 99 % of the time.
     */
    private static final int MAX_QUEUE = 64;
    /** Weight of the newest request in the means, once as many have arrived. */
    private static final double NEWEST_WEIGHT = 1 / 512.0;
    /** Fewer requests say too little about the next ones: the estimate is then 10 % off and more. */
    private static final int MIN_REQUESTS = 256;
    /** Min seconds that a request has waited: shorter queues are soon over at any load below 1. */
    private static final double MIN_WAIT = 2;
    /** Weight of the newest step in the mean step. */
    private static final double STEP_WEIGHT = 1 / 64.0;

    private final StepPredictor predictor;
    private long requests;
    private long tokensSeen;
    private long lastNanos;
    private double meanGap;
    private double meanPrompt;
    private double meanStep;
    private double demand = Double.NaN;
    private boolean needsHost;

    /** @param predictor of the work of prompts */
    GpuDemand(StepPredictor predictor) {
        this.predictor = predictor;
    }

    /** Whether the host is needed. */
    boolean needsHost() {
        return needsHost;
    }

    /** Work that arrives per second over what the GPU alone does; NaN while it is not known. */
    double demand() {
        return demand;
    }

    /**
     * Counts a completed step.
     *
     * @param state after the step
     * @param gpuOnly measured steps of gpu-only
     * @param seconds that the step took; 0 where that is not known
     */
    void completed(SchedulerState state, ThroughputWindow gpuOnly, double seconds) {
        if (seconds > 0) {
            meanStep += (meanStep == 0 ? 1 : STEP_WEIGHT) * (seconds - meanStep);
        }
        countArrivals(state);
        if (requests < MIN_REQUESTS || !gpuOnly.isComplete()) {
            demand = Double.NaN;
        } else {
            double perToken = gpuOnly.secondsPerToken();
            Work work = new Work(predictor.promptSeconds(meanPrompt), state.meanLastOutputs());
            double sinceLast = (state.now() - lastNanos) / 1e9;
            demand = work.normalisedWork(perToken) / Math.max(meanGap, sinceLast) / gpuOnly.rate(perToken);
        }
        boolean piledUp = Double.isNaN(demand)
                ? hasWaited(state, Math.max(MIN_WAIT, meanStep * state.meanOutput()))
                : state.waiting().size() > MAX_QUEUE;
        boolean isLow = Double.isNaN(demand) || demand < MIN_DEMAND;
        needsHost = piledUp
                || demand > MAX_DEMAND
                || needsHost && !(isLow && state.waiting().isEmpty());
    }

    private void countArrivals(SchedulerState state) {
        long count = state.arrived() - requests;
        if (count == 0) {
            return;
        }
        double gap = requests == 0 ? 0 : (state.now() - lastNanos) / 1e9 / count;
        double prompt = (double) (state.arrivedTokens() - tokensSeen) / count;
        // as many equal requests, one after another
        double weight = 1 - Math.pow(1 - Math.max(NEWEST_WEIGHT, 1.0 / (requests + 1)), count);
        meanGap += weight * (gap - meanGap);
        meanPrompt += weight * (prompt - meanPrompt);
        requests = state.arrived();
        tokensSeen = state.arrivedTokens();
        lastNanos = state.now();
    }

    private static boolean hasWaited(SchedulerState state, double seconds) {
        for (Sequence sequence : state.waiting().view()) {
            if (sequence.outputLength() == 0) {
                return state.now() - sequence.timings().arrivedNanos() > seconds * 1e9;
            }
        }
        return false;
    }
}
