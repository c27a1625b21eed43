package dev.tandem.engine.strategy;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Chooses same-layer tokens: host tokens in the one batch of a step, whose attention the CPU computes while the GPU
 * computes its own of the same layer (ADR 47). They need no second pass over the weights. Tokens with {@code T_ca +
 * trip <= T_ga}, corrected by the overhead of a stage, hide. For more of them the GPU waits in each layer, as long as
 * that raises the requests per second (ADR 101). Those that have waited longest come first, so that all host tokens
 * take turns.
 *
 * @param pipeline drafts the step whose prompts and GPU decodes the batch keeps
 */
public record SameLayer(Pipeline pipeline) {
    /**
     * A step of one batch with same-layer tokens.
     *
     * @param tokens sequences whose attention the CPU computes, at least one
     * @param candidate the step with its predicted time
     * @param waits seconds of it in which the GPU is predicted to wait for the CPU
     */
    public record Choice(List<Sequence> tokens, Candidate candidate, double waits) {}

    /**
     * The same-layer tokens with which a draft's GPU part does most requests per second; empty where none raises that
     * rate, and where the host that waiting requests would fill gains more in two sub-batches. Where no token of the
     * GPU's mean context hides, only tokens that hide are taken.
     *
     * @param draft of two sub-batches or of the GPU alone; it stays as it is
     */
    public Optional<Choice> choose(StepDraft draft) {
        StepPredictor predictor = pipeline.predictor();
        Load load = pipeline.gpuOnlySchedule(draft);
        Optional<BestHost> host = best(draft, pipeline);
        if (host.isPresent() && !host.get().oneBatch() || load.rows() == 0) {
            return Optional.empty();
        }
        List<Sequence> queue = HostTier.candidates(draft);
        queue.sort(HostTier.WAITED_LONGEST);
        double rate = load.requests() / predictor.gpuOnly(load);
        double waited = 0;
        List<Sequence> taken = new ArrayList<>();
        Optional<Candidate> best = Optional.empty();
        double waitsOfBest = 0;
        for (Sequence sequence : queue) {
            Row row = new Row(sequence, sequence.computed(), 1, AttentionSite.CPU_FROM_HOST);
            load.add(row, 1);
            double waits = predictor.waits(load);
            boolean pays = host.isPresent() ? (waits - waited) * rate <= 1 : waits == 0;
            if (!pays || load.rows() > draft.budget().maxBatchTokens()) {
                load.add(row, -1); // others have shorter contexts
                continue;
            }
            taken.add(sequence);
            waited = waits;
            double seconds = predictor.sameLayer(load);
            double counted = load.requests() - pipeline.uncounted(draft, load.cpuRows(), load.cpuTokens());
            double requests = waits == 0 ? load.requests() : counted; // tokens that hide cost no wait, so each counts
            if (requests / seconds > rate) {
                rate = requests / seconds;
                waitsOfBest = waits;
                best = Optional.of(new Candidate(Shape.SAME_LAYER, load.rows(), load.cpuRows(), seconds, counted));
            }
        }
        if (best.isEmpty()) {
            return Optional.empty();
        }
        Candidate step = best.get();
        return Optional.of(new Choice(List.copyOf(taken.subList(0, step.cpuRows())), step, waitsOfBest));
    }

    /**
     * The host that would do most, of the sequences that are on the host or wait for a tier.
     *
     * @param hostTokens per step
     * @param oneBatch whether one batch with same-layer tokens is to be preferred to two sub-batches
     */
    record BestHost(int hostTokens, boolean oneBatch) {}

    /**
     * Estimates the best host; empty where no same-layer token of the GPU's mean context hides beside its decodes.
     *
     * <p>Single steps do not show it. Same-layer tokens serve a host of few sequences best, and so keep it small: in
     * steps chosen by their own rate alone, requests waited although two sub-batches would have done more with them
     * (ADR 47). With a target per token, two sub-batches may be too slow for any host, and one batch not (ADR 101).
     * Where they are slower than predicted, so that the target is missed, one batch follows before the host is empty
     * (ADR 138), unless requests wait and none enters the host meanwhile (ADR 145).
     *
     * <p>Where the GPU holds less KV than fits, for a host that two sub-batches serve, their gain with that host
     * counts: one batch would serve few of its sequences per step (ADR 143).
     */
    static Optional<BestHost> best(StepDraft draft, Pipeline pipeline) {
        StepPredictor predictor = pipeline.predictor();
        if (!predictor.hidesOneBesideDecodes(draft.load(0))) {
            return Optional.empty();
        }
        long target = pipeline.rules().defaultTargets().perTokenNanos();
        long correctedTarget = (long) (target / pipeline.rules().correction());
        SpeedupEstimate.Estimate one =
                new SpeedupEstimate(predictor, SpeedupEstimate.Kind.SAME_LAYER, target).of(draft);
        SpeedupEstimate.Estimate two =
                new SpeedupEstimate(predictor, SpeedupEstimate.Kind.HOST_TOKENS_IN_BOTH, correctedTarget).of(draft);
        two = two.largerOf(pipeline.rules().gpuKvLimitInForce(draft));
        boolean oneBatch = one.weighed() >= two.weighed();
        return Optional.of(new BestHost(oneBatch ? one.hostTokens() : two.hostTokens(), oneBatch));
    }

    /** Makes a draft the step of a choice. A token that finds no host block waits for a later step. */
    public void apply(StepDraft draft, Choice choice) {
        pipeline.makeGpuOnly(draft);
        for (Sequence sequence : choice.tokens()) {
            if (HostTier.canGrow(draft, sequence)) {
                draft.add(0, sequence, 1, AttentionSite.CPU_FROM_HOST);
            }
        }
        draft.shape(draft.load(0).cpuRows() > 0 ? Shape.SAME_LAYER : Shape.GPU_ONLY);
    }
}
