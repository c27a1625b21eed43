package dev.tandem.engine.strategy.paper;

import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.AsyncOverlap;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Pipeline;
import dev.tandem.engine.strategy.StepPredictor;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * {@code apex}: APEX's scheduler (§3.4). Without CPU requests, Algorithm 1 chooses gpu-only. Otherwise it chooses
 * asymmetric pipelining where Algorithm 2 finds that inequality (6) (decodes only) or (8) (with prefills) holds, and
 * async overlap where it does not. With {@link Deviation#COMPARES_WITH_ASYNC} it compares the predicted work of both
 * with gpu-only's, and the pipeline is an alternative where its inequality holds.
 *
 * @param budget of a step
 * @param predictor of the times of steps
 * @param pipeline drafts steps of asymmetric pipelining
 * @param async drafts steps of async overlap
 * @param deviations from the paper
 * @param maxResumed max in-flight tokens that a step takes through their remaining layers (partial progress); 0 where
 *     the executor cannot
 */
public record Apex(
        Budget budget,
        StepPredictor predictor,
        Pipeline pipeline,
        AsyncOverlap async,
        Deviations deviations,
        int maxResumed)
        implements Policy {
    /**
     * Min predicted throughput of the pipeline over that of async overlap before in-flight tokens return for it: while
     * they return, the CPU has less and less work.
     */
    private static final double MIN_RETURN_GAIN = 1.05;
    /**
     * Min predicted work over gpu-only's for which host tokens begin, without a target per token, while none is in
     * flight and the queue ends. Less may be an error of the prediction: steps are padded to the sizes of graphs, and
     * predictions are not (ADR 118). Of 62 simulated whole runs four have less than 0.99 of gpu-only with 1, and one
     * with 1.02 (ADR 120).
     */
    private static final double MIN_BEGIN_GAIN = 1.02;

    /** What is chosen where host tokens do not begin only because the queue ends. */
    private static final String ENDING_QUEUE_WAITS =
            String.format(Locale.ROOT, "gpu-only (min %.2f, as the queue ends)", MIN_BEGIN_GAIN);

    /** Pipeline and async overlap share their tier rules, so only one of them counts the step. */
    @Override
    public void completed(StepDraft draft, double achieved) {
        async.completed(draft, achieved);
    }

    /** Algorithm 1. */
    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        double minCpuRatio = deviations.number(Deviation.MIN_CPU_RATIO).orElseThrow();
        int cpuRequests = state.host().size() + state.inFlight().size();
        StepDraft pipelined = pipeline.withoutHostTokens(state);
        if (cpuRequests + pipelined.outs().size() == 0) {
            // AsymPipeStrat does not run, so NEO's step 5 does not postpone prompts that GPU memory cannot hold (rule
            // 1)
            why.because("apex: no CPU requests, so gpu-only");
            return pipelined;
        }
        if (state.inFlight().isEmpty()
                && cpuRequests < minCpuRatio * state.gpu().size()) {
            // prompts still go to the host: otherwise CPU requests could never become enough
            why.because(
                    "apex: %d CPU requests are fewer than %.1f for each of %d GPU requests, so gpu-only (§4.2)",
                    cpuRequests, minCpuRatio, state.gpu().size());
            return pipelined;
        }
        pipeline.addHostTokens(pipelined);
        resumePartial(pipelined);
        int scheduled = pipelined.load(0).cpuRows()
                + pipelined.load(1).cpuRows()
                + pipelined.resumed().size();
        if (scheduled > 0) {
            return select(state, pipelined, why);
        }
        String premise = "no CPU request fits the pipeline";
        if (!deviations.has(Deviation.COMPARES_WITH_ASYNC)) {
            why.because("apex: %s, so async-overlap", premise);
            return async.draft(state, new Decision());
        }
        return state.inFlight().isEmpty()
                ? besideHostTokens(state, Optional.empty(), premise, why)
                : besideInFlightTokens(state, true, premise, why);
    }

    /**
     * Rule 4, partial progress: beside prompts, in-flight tokens complete their remaining layers in the decode-only
     * sub-batch, before tokens that begin at layer 0. As many do as hide there, those admitted first before the others:
     * they have fewest layers left. With {@code all-or-none} one that does not hide keeps all others from it, and with
     * {@code never} none does.
     */
    private void resumePartial(StepDraft draft) {
        String which = deviations.value(Deviation.PARTIAL_PROGRESS);
        if (which.equals("never") || draft.load(0).prefillPairs() == 0) {
            return;
        }
        boolean some = which.equals("some");
        Load one = draft.load(1);
        List<Sequence> hidden = new ArrayList<>();
        int rows = some ? 0 : one.cpuRows();
        long tokens = some ? 0 : one.cpuTokens();
        for (Sequence sequence : draft.state().inFlight()) {
            if (sequence.state() != RequestState.IN_FLIGHT) {
                continue; // it has been cancelled
            }
            double attention = predictor
                    .cost()
                    .cpuAttention(rows + 1, tokens + draft.state().context(sequence));
            if (hidden.size() < maxResumed && attention <= predictor.linear(draft.load(0))) {
                hidden.add(sequence);
                rows++;
                tokens += draft.state().context(sequence);
            } else if (!some) {
                return;
            }
        }
        if (!hidden.isEmpty()) {
            while (predictor.cost().cpuAttention(rows + one.cpuRows(), tokens + one.cpuTokens())
                            > predictor.linear(draft.load(0))
                    && some
                    && one.cpuRows() > 0) {
                draft.removeLastCpuRow(1);
            }
            hidden.forEach(draft::resume);
            draft.shape(Shape.PIPELINE);
        }
    }

    /** Algorithm 2. */
    private StepDraft select(SchedulerState state, StepDraft pipelined, Decision why) {
        Inequalities.Times times = times(pipelined);
        boolean mixed = pipelined.load(0).prefillPairs() > 0;
        double overlap = mixed ? Inequalities.mixedCycle(times) : Inequalities.decodeCycle(times);
        double gpu = mixed ? Inequalities.mixedGpuThroughput(times) : Inequalities.decodeGpuThroughput(times);
        double pipe = mixed ? Inequalities.mixedPipeThroughput(times) : Inequalities.decodePipeThroughput(times);
        why.consider(new Candidate(
                Shape.GPU_ONLY, pipelined.load(0).gpuRows(), 0, times.linear() + times.gpuAttention(), 0));
        why.consider(new Candidate(
                Shape.PIPELINE, pipelined.totalRows(), pipelined.load(1).cpuRows(), overlap, 0));
        String inequality = mixed ? "(8)" : "(6)";
        if (!deviations.has(Deviation.COMPARES_WITH_ASYNC)
                || !pipelined.resumed().isEmpty()) {
            boolean holds = pipe > gpu;
            why.because(
                    holds
                            ? "apex: inequality %s holds, %.0f > %.0f tokens/s, so asymmetric"
                            : "apex: inequality %s fails, %.0f <= %.0f tokens/s, so async-overlap",
                    inequality,
                    pipe,
                    gpu);
            return holds ? pipelined : async.draft(state, new Decision());
        }
        String premise = "inequality " + inequality + (pipe > gpu ? " holds" : " fails");
        return state.inFlight().isEmpty()
                ? besideHostTokens(state, pipe > gpu ? Optional.of(pipelined) : Optional.empty(), premise, why)
                : besideInFlightTokens(state, pipe > gpu, premise, why);
    }

    /**
     * Chooses while no token is in flight. An inequality compares the pipeline with gpu-only, but the alternative here
     * is async overlap. A step of that admits few tokens, so one is compared in which the host tokens are in flight
     * already. Where both do less than gpu-only, or hardly more, host tokens wait for room on the GPU, while tokens are
     * decoded there: with their ends comes the room.
     *
     * @param pipelined empty where the pipeline is no alternative
     */
    private StepDraft besideHostTokens(
            SchedulerState state, Optional<StepDraft> pipelined, String premise, Decision why) {
        StepDraft inFlight = async.draftAsIfInFlight(state);
        Load reference = pipelined.orElse(inFlight).load(0);
        double pipe = pipelined.map(draft -> workRate(draft, reference)).orElse(0.0);
        double overlap = workRate(inFlight, reference);
        double min = async.queueEndsWithoutTarget(state) ? MIN_BEGIN_GAIN : 1;
        double best = Math.max(pipe, overlap);
        boolean pays = best >= min || inFlight.load(0).gpuRows() == 0;
        boolean overlaps = pays && (pipelined.isEmpty() || overlap > pipe);
        why.because(
                "apex: %1$s;" + (pipelined.isEmpty() ? "" : " asymmetric does %2$.2f,")
                        + " async-overlap would do %3$.2f of gpu-only's work with the host tokens in flight, so %4$s",
                premise,
                pipe,
                overlap,
                overlaps ? "async-overlap" : pays ? "asymmetric" : best >= 1 ? ENDING_QUEUE_WAITS : "gpu-only");
        if (overlaps) {
            return async.draft(state, new Decision());
        }
        return pays ? pipelined.orElseThrow() : pipeline.withoutHostTokens(state);
    }

    /**
     * Chooses while tokens are in flight. The inequalities compare the pipeline with gpu-only, but the alternative here
     * is async overlap, in which the CPU works as well. An asymmetric step would move in-flight tokens by one layer at
     * most. If the pipeline would clearly do more once they have returned, they return and no token is admitted. They
     * also return where gpu-only does more, even than with all host tokens in flight.
     *
     * @param mayPipeline whether the pipeline is an alternative
     */
    private StepDraft besideInFlightTokens(SchedulerState state, boolean mayPipeline, String premise, Decision why) {
        StepDraft overlapped = async.draft(state, new Decision());
        Load reference = overlapped.load(0);
        double overlap = workRate(overlapped, reference);
        double returned = mayPipeline ? returned(state, reference) : 0;
        boolean forPipeline = returned > MIN_RETURN_GAIN * overlap;
        boolean forGpuOnly = !forPipeline
                && overlapped.load(0).gpuRows() > 0
                && overlap < 1
                && workRate(async.draftAsIfInFlight(state), reference) < 1;
        why.because(
                "apex: %1$s;"
                        + (mayPipeline ? " asymmetric would do %2$.2f once the in-flight tokens have returned," : "")
                        + " async-overlap does %3$.2f of gpu-only's work, so %4$s",
                premise,
                returned,
                overlap,
                forPipeline ? "they return" : forGpuOnly ? "they return for gpu-only" : "async-overlap");
        return forPipeline || forGpuOnly ? async.draining(state, new Decision()) : overlapped;
    }

    /** Predicted work per second of a step, relative to gpu-only. */
    private double workRate(StepDraft draft, Load reference) {
        return predictor.gpuOnlySeconds(draft, 0, reference, pipeline.piggybacking()) / predictor.of(draft);
    }

    /** Work per second, relative to gpu-only, of an asymmetric step once all in-flight tokens have returned. */
    private double returned(SchedulerState state, Load reference) {
        StepDraft draft = pipeline.draftAsIfReturned(state);
        double inFlight = (double) state.inFlight().size() / predictor.cost().layers();
        return predictor.gpuOnlySeconds(draft, inFlight, reference, pipeline.piggybacking()) / predictor.of(draft);
    }

    /** The terms of the inequalities for one layer of the draft. */
    private Inequalities.Times times(StepDraft draft) {
        Load zero = draft.load(0);
        int cpuRows = zero.cpuRows() + draft.load(1).cpuRows() + draft.resumed().size();
        long cpuTokens = zero.cpuTokens() + draft.load(1).cpuTokens();
        for (Sequence sequence : draft.resumed()) {
            cpuTokens += draft.state().context(sequence);
        }
        var cost = predictor.cost();
        double gpuAttention = cost.gpuAttention(zero.gpuTokens());
        double cpuAttention = cost.cpuAttention(cpuRows, cpuTokens);
        int prefillRows = zero.rows() - zero.gpuRows() - zero.cpuRows();
        return new Inequalities.Times(
                cost.linear(zero.gpuRows()),
                gpuAttention,
                cost.linear(prefillRows),
                cost.prefillAttention(zero.prefillPairs()),
                gpuAttention > 0 ? zero.gpuTokens() / gpuAttention : 0,
                cpuAttention > 0 ? cpuTokens / cpuAttention : 0);
    }
}
