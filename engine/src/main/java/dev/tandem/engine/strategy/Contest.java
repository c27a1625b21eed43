package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.StepPredictor.Work;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;

/**
 * {@code apex}'s rules or async overlap alone, whichever was measured to do more. The rules weigh single steps; what a
 * tier full of rows in flight brings shows only when it is full. So from time to time the one that runs is measured
 * over a window, then the other, after it had time to fill or empty the host; it goes on if it did clearly more. After
 * each trial that it lost the next waits four times as long.
 *
 * <p>Only steps that use the host count. Owned by: engine thread.
 */
final class Contest implements Policy {
    private static final Logger LOG = System.getLogger(Contest.class.getName());

    /**
     * @param settling steps that the host is given to fill or empty, and again as long as it still fills
     * @param window steps over which both are measured
     * @param pause steps between two trials
     * @param longestPause after lost ones
     */
    record Limits(int settling, int window, int pause, int longestPause) {
        static final Limits DEFAULT = new Limits(2048, 2048, 131_072, 1_048_576);
    }

    private static final int LONGER = 4;
    /** How much more the challenger must do: less may be the windows'. */
    private static final double CLEARLY = 1.02;
    /** A host that has so many times the rows that it had still fills. */
    private static final double FILLS = 1.03;

    enum Phase {
        RESTING,
        MEASURING,
        SETTLING,
        TRYING
    }

    private final Policy rules;
    private final Policy overlap;
    private final Policy draining;
    private final StepPredictor predictor;
    private final Limits limits;
    private final Throughput incumbent;
    private final Throughput challenger;
    private final PendingDrafts<Drafted> drafts = new PendingDrafts<>();
    private Phase phase = Phase.RESTING;
    private int left;
    private int pause;
    private int hostTokens;
    private boolean overlaps;
    /** Until no row is in flight, after the rules' turn has come. */
    private boolean returns;

    /**
     * What is counted of a draft once its step has completed.
     *
     * @param noneWasInFlight whether no token was in flight when it was drafted
     */
    private record Drafted(
            StepDraft draft, boolean offloads, boolean noneWasInFlight, Work work, double secondsPerToken) {}

    /**
     * @param rules told of all steps; {@code overlap} and {@code draining} are the rules' own
     * @param draining steps in which in-flight tokens go on and none enters
     */
    Contest(Policy rules, Policy overlap, Policy draining, StepPredictor predictor, Limits limits) {
        this.rules = rules;
        this.overlap = overlap;
        this.draining = draining;
        this.predictor = predictor;
        this.limits = limits;
        this.incumbent = new Throughput(limits.window());
        this.challenger = new Throughput(limits.window());
        this.left = limits.settling();
        this.pause = limits.pause();
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        boolean noneInFlight = state.inFlight().isEmpty();
        Policy turn = returns && !noneInFlight ? draining : overlaps ? overlap : rules;
        StepDraft draft = turn.draft(state, why);
        boolean offloads = draft.offloads();
        drafts.add(
                draft,
                new Drafted(
                        draft,
                        offloads,
                        noneInFlight,
                        offloads ? predictor.work(draft) : new Work(0, 0),
                        offloads ? predictor.secondsPerToken(draft.load(0)) : 0));
        return draft;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        rules.completed(draft, achieved);
        drafts.completed(draft).ifPresent(step -> {
            returns &= !step.noneWasInFlight();
            if (step.offloads() && achieved > 0) {
                count(step, achieved);
            }
        });
    }

    private void count(Drafted step, double achieved) {
        switch (phase) {
            case MEASURING -> incumbent.add(step.work(), step.secondsPerToken(), achieved);
            case SETTLING, TRYING -> challenger.add(step.work(), step.secondsPerToken(), achieved);
            case RESTING -> {}
        }
        if (--left > 0) {
            return;
        }
        switch (phase) {
            case RESTING -> begin(fills(step.draft()) ? Phase.RESTING : Phase.MEASURING);
            case MEASURING -> {
                change();
                begin(Phase.SETTLING);
            }
            case SETTLING -> {
                if (challenger.isHopelessBeside(incumbent)) {
                    judge();
                } else {
                    begin(fills(step.draft()) ? Phase.SETTLING : Phase.TRYING);
                }
            }
            case TRYING -> judge();
        }
    }

    private boolean fills(StepDraft draft) {
        int before = hostTokens;
        hostTokens = draft.state().host().size() + draft.state().inFlight().size();
        return hostTokens > FILLS * before;
    }

    private void begin(Phase next) {
        phase = next;
        left = switch (next) {
            case RESTING, SETTLING -> limits.settling();
            case MEASURING, TRYING -> limits.window();
        };
        if (next == Phase.MEASURING) {
            incumbent.clear();
        } else {
            challenger.clear();
        }
    }

    Phase phase() {
        return phase;
    }

    private void change() {
        overlaps = !overlaps;
        returns = !overlaps;
    }

    private void judge() {
        double share = challenger.share(incumbent);
        LOG.log(
                Level.INFO,
                "apex: {0} did {1} times as much as {2}",
                overlaps ? "async-overlap" : "its rules",
                share,
                overlaps ? "its rules" : "async-overlap");
        if (share >= CLEARLY) {
            pause = limits.pause();
        } else {
            pause = Math.min(limits.longestPause(), LONGER * pause);
            change();
        }
        begin(Phase.RESTING);
        left = pause;
    }
}
