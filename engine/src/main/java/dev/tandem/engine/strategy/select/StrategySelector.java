package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.SpeedupEstimate;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.StepPredictor.Work;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Optional;

/**
 * Chooses, by what was measured, which arm makes the next step: gpu-only or one that offloads.
 *
 * <p>With gpu-only as an arm the selector is the guard: an arm that offloads starts once gpu-only was measured while
 * offloading was wanted, and stops once it has lost work against that measurement. Arms that offload are also measured
 * against each other. {@link Phase} says what each phase measures and what ends it; {@link ArmRanking} says which of
 * two windows is better. Where an arm has no use for an empty host, the step is gpu-only's own draft, and counts as
 * gpu-only's.
 *
 * <p>Drafts change nothing here. All state advances when a step completes that was made of a draft.
 *
 * <p>Owned by: engine thread; {@link #phase()}, {@link #isOffloading()} and {@link #losses()} may be read by any.
 */
public final class StrategySelector implements Policy {
    /**
     * How much of the cost model's error is added to the margin: what misses both steps in the same way cancels out.
     */
    private static final double ERROR_WEIGHT = 0.25;
    /**
     * Steps for which an arm stays in its pipeline though it would enter async overlap. Tokens that enter in a single
     * step keep the pipeline waiting until they are through. 32 steps cost {@code h200-16sm-26k} 1000/400 1 %, 2 and 8
     * nothing (simulated).
     */
    static final int PIPELINE_STAYS = 8;
    /** Two steps may be under way, and one draft may be dropped between two steps. */
    private static final int MAX_PENDING = 8;

    private final List<Arm> arms;
    private final Optional<Baseline> baseline;
    private final StepPredictor predictor;
    private final ArmRanking ranking;
    private final double margin;
    private final ExpectedGain expectedGain;
    private final ArmSelection selection;
    private final ArrayDeque<Drafted> pending = new ArrayDeque<>(MAX_PENDING);
    private int pipelineStays = PIPELINE_STAYS;

    /**
     * gpu-only as an arm.
     *
     * @param policy drafts gpu-only's steps
     * @param drain drafts the steps of {@link Phase#DRAIN}
     * @param first whether the other arms have no use for the host while the GPU has room for all requests
     */
    public record Baseline(Policy policy, Policy drain, boolean first) {}

    /**
     * A draft, and what it changes once its step has completed.
     *
     * @param ofPause whether it is a pause's
     * @param hostTokens on the host when it was made
     * @param inFlight whether tokens were in flight then
     * @param stays whether it stands in for one with which the arm would leave its pipeline
     * @param sample what is counted of it; nothing where gpu-only is not to be measured
     * @param offer present where an arm would offload and gpu-only is an arm
     */
    private record Drafted(
            StepDraft draft,
            boolean ofPause,
            int hostTokens,
            boolean inFlight,
            boolean stays,
            Optional<Sample> sample,
            Optional<Offer> offer) {}

    private static final int GPU_ONLY = -1;

    /**
     * @param arm that made the step, or {@link #GPU_ONLY}
     * @param secondsPerToken of gpu-only, as things were
     */
    private record Sample(int arm, Work work, double secondsPerToken) {}

    /**
     * What an arm offers with a step.
     *
     * @param enough whether as much gain is expected as is wanted
     * @param begins whether offloading begins with the step
     * @param demand requests at that moment
     */
    private record Offer(
            ExpectedGain.Expectation expectation, boolean enough, boolean begins, Measurement.Demand demand) {}

    /** An arm's draft, and whether it stands in for one with which the arm would leave its pipeline. */
    private record ArmDraft(StepDraft draft, boolean stays) {}

    /**
     * @param arms that offload, the one to begin with first; each arm's policy hears of every completed step
     * @param baseline gpu-only, where offloading must prove its gain
     * @param predictor for this executor, swaps included
     */
    public StrategySelector(
            List<Arm> arms,
            Optional<Baseline> baseline,
            StepPredictor predictor,
            ArmRanking ranking,
            SelectorLimits limits) {
        this.arms = List.copyOf(arms);
        this.baseline = baseline;
        this.predictor = predictor;
        this.ranking = ranking;
        this.margin = limits.margin();
        this.selection = new ArmSelection(arms.stream().map(Arm::name).toList(), baseline.isPresent(), ranking, limits);
        List<SpeedupEstimate> estimates = arms.stream()
                .flatMap(arm -> arm.kinds().stream())
                .distinct()
                .map(kind -> new SpeedupEstimate(predictor, kind))
                .toList();
        this.expectedGain = new ExpectedGain(estimates, limits.window());
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        Drafted next = baseline.isPresent() ? guarded(baseline.get(), state, why) : unguarded(state, why);
        if (pending.size() == MAX_PENDING) {
            pending.removeFirst();
        }
        pending.addLast(next);
        return next.draft();
    }

    private static int hostTokens(SchedulerState state) {
        return state.host().size() + state.inFlight().size();
    }

    private Drafted unguarded(SchedulerState state, Decision why) {
        ArmDraft offload = armDraft(state, why);
        boolean counts = offload.draft().offloads();
        return armStep(offload, counts ? sample(offload.draft(), offload.draft()) : Optional.empty(), Optional.empty());
    }

    private Drafted guarded(Baseline base, SchedulerState state, Decision why) {
        if (selection.phase() == Phase.DRAIN && hostTokens(state) > 0) {
            return gpuOnlyStep(base.drain().draft(state, why), false, false, Optional.empty());
        }
        if (selection.pausedFor() > 0) {
            StepDraft plain = base.policy().draft(state, new Decision());
            why.because("guard: offloading lost, so gpu-only for %d more steps", selection.pausedFor());
            return gpuOnlyStep(plain, true, isShortOfKv(state), Optional.empty());
        }
        if (base.first() && state.waiting().isEmpty() && hostTokens(state) == 0) {
            StepDraft plain = base.policy().draft(state, why);
            if (plain.drops().isEmpty() && plain.outs().isEmpty()) {
                // the GPU has room for all requests
                return gpuOnlyStep(plain, false, false, Optional.empty());
            }
        }
        ArmDraft offload = armDraft(state, why);
        boolean usesHost = offload.draft().offloads();
        if (!usesHost && selection.isOffloading() && hostTokens(state) > 0) {
            return armStep(offload, sample(offload.draft(), offload.draft()), Optional.empty());
        }
        StepDraft plain = base.policy().draft(state, new Decision());
        if (!usesHost) {
            why.because("guard: the strategy leaves the host alone, so gpu-only");
            boolean counts = isShortOfKv(state) && selection.countsGpuOnly(Measurement.Demand.of(state));
            return gpuOnlyStep(plain, false, counts, Optional.empty());
        }
        if (plain.load(0).rows() == 0) {
            return armStep(offload, Optional.empty(), Optional.empty());
        }
        return decided(plain, offload, why);
    }

    private static boolean isShortOfKv(SchedulerState state) {
        return !state.waiting().isEmpty() || !state.host().isEmpty();
    }

    /** The arm would offload: that must gain enough for long enough, and is counted from then on. */
    private Drafted decided(StepDraft plain, ArmDraft offload, Decision why) {
        double secondsPerToken = predictor.secondsPerToken(plain.load(0));
        double offloadRate = predictedRate(offload.draft(), secondsPerToken, why);
        double gain = offloadRate / predictedRate(plain, secondsPerToken, why) - 1;
        ExpectedGain.Expectation expectation = expectedGain.of(plain, gain);
        Measurement.Demand demand = Measurement.Demand.of(plain.state());
        double wanted = margin + ERROR_WEIGHT * predictor.cost().error();
        boolean enough = expectation.expected() >= wanted;
        boolean begins = enough && selection.begins(demand);
        Optional<Offer> offer = Optional.of(new Offer(expectation, enough, begins, demand));
        if (selection.isOffloading() || begins) {
            return armStep(offload, sample(offload.draft(), plain), offer);
        }
        why.because("guard: gain %.1f %% of at least %.1f %%, so gpu-only", expectation.expected() * 100, wanted * 100);
        return gpuOnlyStep(plain, false, selection.countsWanted(demand), offer);
    }

    private Drafted armStep(ArmDraft step, Optional<Sample> sample, Optional<Offer> offer) {
        SchedulerState state = step.draft().state();
        boolean inFlight = !state.inFlight().isEmpty();
        return new Drafted(step.draft(), false, hostTokens(state), inFlight, step.stays(), sample, offer);
    }

    private Drafted gpuOnlyStep(StepDraft draft, boolean ofPause, boolean counts, Optional<Offer> offer) {
        SchedulerState state = draft.state();
        Optional<Sample> sample = counts
                ? Optional.of(new Sample(GPU_ONLY, ranking.work(draft), predictor.secondsPerToken(draft.load(0))))
                : Optional.empty();
        boolean inFlight = !state.inFlight().isEmpty();
        return new Drafted(draft, ofPause, hostTokens(state), inFlight, false, sample, offer);
    }

    /** @param plain by whose rows the price of a token is known */
    private Optional<Sample> sample(StepDraft draft, StepDraft plain) {
        double secondsPerToken = predictor.secondsPerToken(plain.load(0));
        return Optional.of(new Sample(selection.arm(), ranking.work(draft), secondsPerToken));
    }

    private ArmDraft armDraft(SchedulerState state, Decision why) {
        boolean inFlight = !state.inFlight().isEmpty();
        if (inFlight && selection.left().isPresent()) {
            Optional<Policy> leave = arms.get(selection.left().getAsInt()).leave();
            if (leave.isPresent()) {
                return new ArmDraft(leave.get().draft(state, why), false);
            }
        }
        Arm arm = arms.get(selection.arm());
        StepDraft draft = arm.policy().draft(state, why);
        boolean leavesPipeline = draft.shape() == Shape.ASYNC && !inFlight && pipelineStays < PIPELINE_STAYS;
        if (arm.instead().isEmpty() || !leavesPipeline) {
            return new ArmDraft(draft, false);
        }
        StepDraft pipelined = arm.instead().get().draft(state, why);
        why.because(
                "apex: the pipeline is left after %d steps, of which this is number %d; %s",
                PIPELINE_STAYS, pipelineStays + 1, why.reason());
        return new ArmDraft(pipelined, true);
    }

    private double predictedRate(StepDraft draft, double secondsPerToken, Decision why) {
        double seconds = predictor.of(draft);
        double normalisedWork = predictor.work(draft).normalisedWork(secondsPerToken);
        int cpuRows = draft.load(0).cpuRows()
                + draft.load(1).cpuRows()
                + draft.admissions().size();
        why.consider(new Candidate(draft.shape(), draft.totalRows(), cpuRows, seconds, normalisedWork));
        return seconds > 0 ? normalisedWork / seconds : 0;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        arms.forEach(arm -> arm.policy().completed(draft, achieved));
        baseline.ifPresent(base -> base.drain().completed(draft, achieved));
        if (pending.stream().noneMatch(step -> step.draft() == draft)) {
            return; // another policy made it
        }
        Drafted step = pending.removeFirst();
        while (step.draft() != draft) { // steps complete in their order, so no step was made of those before
            step = pending.removeFirst();
        }
        advance(step, achieved);
    }

    private void advance(Drafted step, double achieved) {
        if (step.stays()) {
            pipelineStays++;
        } else if (step.draft().shape() == Shape.PIPELINE) {
            pipelineStays = 0;
        }
        if (!step.inFlight()) {
            selection.nothingInFlight();
        }
        if (step.ofPause()) {
            selection.paused();
        }
        if (step.hostTokens() == 0 && !step.draft().offloads()) {
            selection.hostIsEmpty();
        }
        step.offer().ifPresent(offer -> {
            expectedGain.learn(offer.expectation());
            selection.offered(offer.enough(), offer.begins(), offer.demand());
        });
        if (achieved > 0) {
            step.sample().ifPresent(sample -> count(step, sample, achieved));
        }
    }

    private void count(Drafted step, Sample sample, double achieved) {
        ArmSelection.Measured measured = new ArmSelection.Measured(sample.work(), sample.secondsPerToken(), achieved);
        if (sample.arm() == GPU_ONLY) {
            selection.countGpuOnly(measured);
            return;
        }
        boolean full = step.offer().map(offer -> !offer.expectation().fills()).orElse(false);
        selection.count(sample.arm(), measured, step.hostTokens(), full);
    }

    /** What the selector does at present. */
    public Phase phase() {
        return selection.phase();
    }

    /** Whether another arm is tried in place of the one that has run. */
    boolean isTrial() {
        return selection.isTrial();
    }

    /** Whether requests may be decoded on the host at present. */
    public boolean isOffloading() {
        return selection.isOffloading();
    }

    /** How often offloading has lost against gpu-only. */
    public int losses() {
        return selection.losses();
    }
}
