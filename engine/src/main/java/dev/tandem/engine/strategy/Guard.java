package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.Potential.Kind;
import dev.tandem.engine.strategy.StepPredictor.Work;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Optional;
import java.util.Queue;

/**
 * Never worse than GPU-only: offloading must prove its gain, predicted before each step and measured after. A gain
 * smaller than the cost model's own error is none.
 *
 * <p>A step's work is worth the seconds that GPU-only would need for it, so that a prompt that lands on the host counts like any
 * other. Until the host has the rows that pay most, steps with slots or second passes bring less than they will:
 * there the {@link Potential} decides, and windows are not judged, for a bounded time.
 *
 * <p>Two modes, GPU-only and offloading. Offloading begins after {@link Limits#votes} steps in a row whose prediction
 * asks for it, once GPU-only has been measured over a window of such steps: offloading would do other steps, and what GPU-only would do
 * in their place is not what it does when left alone, nor in the burst with which a server starts. It goes on until it has clearly lost over a
 * window of steps against what GPU-only was measured to do, or by little over two, beyond what windows before had gained; it is then switched off, four
 * times as long with each clear loss. When the work has changed since that measurement, so that a token costs another price, GPU-only is measured again.
 *
 * <p>Owned by: engine thread; {@link #isOffloading()} and {@link #losses()} may be read by any.
 */
public final class Guard implements Policy {
    private static final Logger LOG = System.getLogger(Guard.class.getName());

    /**
     * @param margin least predicted gain, as a share, to begin
     * @param errorWeight how much of the cost model's error is added to the margin: what misses both steps alike cancels out
     * @param votes steps in a row that ask for it
     * @param window steps over which throughput is measured, GPU-only's first, and predictions are averaged
     * @param pause steps without offloading after a first loss
     * @param longestPause after others
     * @param growth windows that are not judged because the host is filling, at most, each time offloading begins
     * @param burst windows for which GPU-only is not measured at first, at most, until as many requests have ended as were on the GPU
     */
    public record Limits(
            double margin, double errorWeight, int votes, int window, int pause, int longestPause, int growth, int burst) {
        public static final Limits DEFAULT = new Limits(0.05, 0.25, 64, 1024, 8192, 262_144, 6, 4);
    }

    /** Share of the rows that pay most from which the host counts as full. */
    private static final double GROWN = 0.7;
    /** What GPU-only was measured to do says nothing when a token has become so many times as dear or cheap since. */
    private static final double COMPARABLE = 2;
    /** After a clear loss each pause is so many times as long as the one before: an attempt fills and empties a host tier for nothing. */
    private static final int LONGER = 4;
    /** Share of GPU-only's throughput from which a loss may be the window's, and costs little if it is not: two in a row count. */
    private static final double NEARLY = 0.95;
    /** Of what windows gained, in windows of GPU-only, so much may be lost again: prompts come in waves. */
    private static final double MOST_CREDIT = 0.25;
    /** A window takes at most so many times as long as GPU-only's: steps full of prompts may take a second each. */
    private static final double LONGEST = 2;

    private final Policy strategy;
    private final Policy gpuOnly;
    private final StepPredictor predictor;
    private final Limits limits;
    private volatile boolean offloading;
    private volatile int losses;
    private int votes;
    private long pausedFor;
    private int pause;
    private final List<Potential> potentials;
    /** Of steps that offload, since they were judged last. */
    private final Throughput window;
    /** Of GPU-only's steps in which offloading was wanted or might have been. */
    private final Throughput alone;
    private boolean growing;
    private final Filling filling;
    private int hostRows;
    /** What offloading has gained so far, in windows of GPU-only, at most {@link #MOST_CREDIT}. */
    private double credit;
    /** Whether the last window judged was lost by little. */
    private boolean doubtful;
    /** Requests that will have ended when the first burst has; negative before it begins. */
    private long burstEnds = -1;
    private int burstSteps;
    private double meanGain;
    private long predictions;
    /** Drafts of steps under way, and those that no step was made of. */
    private final Queue<Counted> drafts = new ArrayDeque<>();
    private double aToken;

    /**
     * What a step made of a draft counts for.
     *
     * @param where nowhere unless offloading is wanted
     * @param aToken seconds of GPU-only for a token, as things were
     */
    private record Counted(StepDraft draft, Optional<Throughput> where, Work work, double aToken, boolean growing) {}

    /**
     * @param kind of the strategy: what its steps may be
     * @param predictor for this executor, swaps included
     */
    public Guard(Policy strategy, Strategy kind, Policy gpuOnly, StepPredictor predictor, Limits limits) {
        this.strategy = strategy;
        this.gpuOnly = gpuOnly;
        this.predictor = predictor;
        this.limits = limits;
        this.pause = limits.pause();
        this.window = new Throughput(limits.window());
        this.alone = new Throughput(limits.window());
        this.filling = new Filling(limits.window(), limits.growth());
        this.potentials = switch (kind) {
            case GPU_ONLY -> List.of();
            case ASYNC_OVERLAP -> List.of(new Potential(predictor, Kind.IN_FLIGHT));
            case APEX -> List.of(new Potential(predictor, Kind.IN_FLIGHT), new Potential(predictor, Kind.TWO_PASSES_WITH_PROMPTS));
            case ASYMMETRIC, NEO -> List.of(new Potential(predictor, Kind.TWO_PASSES_WITH_PROMPTS));
            case SIMPLE_OFFLOAD, SYMMETRIC, FASTDECODE_PLUS -> List.of(new Potential(predictor, Kind.TWO_PASSES));
        };
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        Counted next = pausedFor > 0 ? paused(state, why) : offered(state, why);
        drafts.add(next);
        return next.draft();
    }

    private Counted offered(SchedulerState state, Decision why) {
        StepDraft offload = strategy.draft(state, why);
        if (!offload.offloads()) {
            return uncounted(offload);
        }
        StepDraft plain = gpuOnly.draft(state, new Decision());
        aToken = predictor.aToken(plain.load(0));
        double offloadRate = rate(offload, why);
        double plainRate = rate(plain, why);
        if (plain.load(0).rows() == 0) {
            return uncounted(offload);
        }
        Potential.Outlook outlook = outlook(plain);
        hostRows = state.host().size() + state.inFlight().size();
        growing = hostRows < GROWN * outlook.rows();
        double gain = meanGain(offloadRate, plainRate);
        if (growing) {
            gain = Math.max(gain, outlook.gain());
            predictions = 0; // of a host that is filling they say little about one that is full
        }
        double wanted = limits.margin() + limits.errorWeight() * predictor.cost().error();
        vote(gain >= wanted);
        if (!offloading) {
            why.because("guard: gain %.1f %% of at least %.1f %%, so gpu-only", gain * 100, wanted * 100);
            return isInBurst(state) ? uncounted(plain) : counted(plain, alone);
        }
        return counted(offload, window);
    }

    /** At first all prompts are computed at once and nothing ends: what GPU-only does then is not what it does later. */
    private boolean isInBurst(SchedulerState state) {
        if (burstEnds < 0) {
            burstEnds = state.ended() + state.gpu().size();
        }
        return state.ended() < burstEnds && ++burstSteps <= limits.burst() * limits.window();
    }

    private Counted paused(SchedulerState state, Decision why) {
        pausedFor--;
        StepDraft plain = gpuOnly.draft(state, new Decision());
        why.because("guard: offloading lost, so gpu-only for %d more steps", pausedFor);
        if (state.waiting().isEmpty() && state.host().isEmpty()) {
            return uncounted(plain);
        }
        aToken = predictor.aToken(plain.load(0));
        return counted(plain, alone);
    }

    private static Counted uncounted(StepDraft draft) {
        return new Counted(draft, Optional.empty(), new Work(0, 0), 0, false);
    }

    private Counted counted(StepDraft draft, Throughput where) {
        return new Counted(draft, Optional.of(where), predictor.work(draft), aToken, growing);
    }

    /** Steps differ: some land prompts, some do not. */
    private double meanGain(double offloadRate, double plainRate) {
        double gain = offloadRate / plainRate - 1;
        meanGain += (gain - meanGain) / Math.min(++predictions, limits.window());
        return meanGain;
    }

    private Potential.Outlook outlook(StepDraft plain) {
        Potential.Outlook best = new Potential.Outlook(0, 0);
        for (Potential potential : potentials) {
            Potential.Outlook outlook = potential.of(plain);
            best = outlook.gain() > best.gain() ? outlook : best;
        }
        return best;
    }

    private double rate(StepDraft draft, Decision why) {
        double seconds = predictor.of(draft);
        double worth = predictor.work(draft).worth(aToken);
        int rows = draft.totalRows();
        int cpu = draft.load(0).cpuRows() + draft.load(1).cpuRows() + draft.admissions().size();
        why.consider(new Candidate(draft.shape(), rows, cpu, seconds, worth));
        return seconds > 0 ? worth / seconds : 0;
    }

    /** Offloading begins by prediction; only what was measured ends it. */
    private void vote(boolean gains) {
        votes = offloading || !gains ? 0 : votes + 1;
        if (votes >= limits.votes() && alone.isComplete()) {
            votes = 0;
            offloading = true;
            doubtful = false;
            credit = 0;
            filling.begin(LONGEST * alone.horizonSeconds());
            window.clear();
        }
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        strategy.completed(draft, achieved);
        Counted step = drafts.remove();
        while (step.draft() != draft) {
            step = drafts.remove();
        }
        Counted done = step;
        if (achieved > 0) {
            done.where().ifPresent(where -> count(where, done, achieved));
        }
    }

    private void count(Throughput where, Counted step, double achieved) {
        if (where == window && !offloading) {
            return; // drafted before a window was lost
        }
        if (where == window && step.growing() && filling.lasts()) {
            boolean ended = filling.add(step.work(), step.aToken(), achieved, hostRows);
            if (ended && filling.window().isHopelessBeside(alone)) {
                lose(filling.window().share(alone));
            }
            return;
        }
        where.add(step.work(), step.aToken(), achieved);
        if (window.isComplete(LONGEST * alone.horizonSeconds())) {
            judge();
            window.clear();
        }
    }

    private void judge() {
        double price = alone.price();
        if (Math.max(window.price() / price, price / window.price()) > COMPARABLE) {
            offloading = false;
            alone.clear();
            LOG.log(Level.INFO, "a token costs {0} ms instead of {1} now: GPU-only is measured again", 1e3 * window.price(), 1e3 * price);
            return;
        }
        double share = window.share(alone);
        credit = Math.min(MOST_CREDIT, credit + share - 1);
        if (share >= 1) {
            pause = limits.pause();
        }
        if (credit >= 0) {
            doubtful = false;
        } else if (doubtful || share < NEARLY) {
            lose(share);
        } else {
            doubtful = true;
        }
    }

    /** @param share of what GPU-only does */
    private void lose(double share) {
        rest(share < NEARLY ? LONGER : 1);
        losses++;
        offloading = false;
        votes = 0;
        LOG.log(
                Level.WARNING,
                "offloading did in a second, over {0} steps, what GPU-only does in {1} s: GPU-only for {2} steps",
                limits.window(),
                share,
                pausedFor);
    }

    private void rest(int longer) {
        pausedFor = pause;
        pause = (int) Math.min(limits.longestPause(), (long) longer * pause);
    }

    /** Whether the guard lets the strategy offload at present. */
    public boolean isOffloading() {
        return offloading;
    }

    /** Windows in which offloading did less than GPU-only. */
    public int losses() {
        return losses;
    }
}
