package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.SpeedupEstimate.Kind;
import dev.tandem.engine.strategy.StepPredictor.Work;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.Optional;

/**
 * Never worse than GPU-only: offloading must prove its gain, predicted before each step and measured after. A gain
 * smaller than the cost model's own error is none.
 *
 * <p>A step's work is worth the seconds that GPU-only would need for it, so that a prompt that lands on the host counts
 * like any other. Until the host has the rows that pay most, steps with slots or second passes bring less than they
 * will: there the {@link SpeedupEstimate} decides, and windows are not judged, for a bounded time.
 *
 * <p>Two modes, GPU-only and offloading. Offloading begins after {@link Limits#votes} steps in a row whose prediction
 * asks for it, once GPU-only has been measured over a window of such steps: offloading would do other steps, and what
 * GPU-only would do in their place is not what it does when left alone, nor in the burst with which a server starts. It
 * goes on until it has clearly lost over a window of steps against what GPU-only was measured to do, or by little over
 * two, beyond what windows before had gained; it is then switched off, four times as long with each clear loss. First
 * the host drains: its sequences go on there while prompts start on the GPU alone. A step in which the strategy does
 * not use the host is GPU-only's own. When the work has changed since that measurement, so that a token costs another
 * price, GPU-only is measured again.
 *
 * <p>Owned by: engine thread; {@link #isOffloading()} and {@link #losses()} may be read by any.
 */
public final class Guard implements Policy {
    private static final Logger LOG = System.getLogger(Guard.class.getName());

    /**
     * @param margin least predicted gain, as a share, to begin
     * @param errorWeight how much of the cost model's error is added to the margin: what misses both steps alike
     *     cancels out
     * @param votes steps in a row that ask for it
     * @param window steps over which throughput is measured, GPU-only's first, and predictions are averaged
     * @param pause steps without offloading after a first loss
     * @param longestPause after others
     * @param forecast windows that are not judged because the host is filling, at most, each time offloading begins
     * @param burst windows for which GPU-only is not measured at first, at most, until as many requests have ended as
     *     were on the GPU
     */
    public record Limits(
            double margin,
            double errorWeight,
            int votes,
            int window,
            int pause,
            int longestPause,
            int forecast,
            int burst) {
        public static final Limits DEFAULT = new Limits(0.05, 0.25, 64, 1024, 8192, 262_144, 6, 4);
    }

    /** Share of the rows that pay most from which the host counts as full. */
    private static final double GROWN = 0.7;
    /** What GPU-only was measured to do says nothing when a token has become so many times as dear or cheap since. */
    private static final double COMPARABLE = 2;
    /**
     * After a clear loss each pause is so many times as long as the one before: an attempt fills and empties a host
     * tier for nothing.
     */
    private static final int LONGER = 4;
    /**
     * Share of GPU-only's throughput from which a loss may be the window's, and costs little if it is not: two in a row
     * count.
     */
    private static final double NEARLY = 0.95;
    /** Of what windows gained, in windows of GPU-only, so much may be lost again: prompts come in waves. */
    private static final double MAX_CREDIT = 0.25;
    /** A window takes at most so many times as long as GPU-only's: steps full of prompts may take a second each. */
    private static final double LONGEST = 2;

    private static final Work NO_WORK = new Work(0, 0);

    private final Policy strategy;
    private final Policy gpuOnly;
    private final Policy drain;
    /** Whether the strategy has no use for the host while the GPU has room for everybody. */
    private final boolean gpuFirst;

    private final StepPredictor predictor;
    private final Limits limits;
    private volatile boolean offloading;
    private volatile int losses;
    /** From the end of offloading until the host is empty. */
    private boolean draining;

    private int votes;
    private long pausedFor;
    private int pause;
    private final List<SpeedupEstimate> estimates;
    /** Of steps that offload, since they were judged last. */
    private final Throughput window;
    /** Of GPU-only's steps in which offloading was wanted or might have been. */
    private final Throughput alone;

    private boolean growing;
    private final Filling filling;
    /** What offloading has gained so far, in windows of GPU-only, at most {@link #MAX_CREDIT}. */
    private double credit;
    /** Whether the last window judged was lost by little. */
    private boolean doubtful;
    /** Requests that will have ended when the first burst has; negative before it begins. */
    private long burstEnds = -1;

    private int burstSteps;
    private double meanGain;
    private long predictions;
    private final PendingDrafts<Drafted> drafts = new PendingDrafts<>();

    private enum Mode {
        OPEN,
        PAUSED,
        DRAINING
    }

    /**
     * A draft, and what changes once a step that was made of it has completed.
     *
     * @param where its throughput counts; nowhere unless offloading is wanted, or might be
     * @param secondsPerToken seconds of GPU-only for a token, as things were
     * @param hostTokens on the host when it was drafted
     * @param offer present where the strategy would offload
     */
    private record Drafted(
            StepDraft draft,
            Mode mode,
            Optional<Throughput> where,
            Work work,
            double secondsPerToken,
            int hostTokens,
            boolean growing,
            Optional<Offer> offer) {
        boolean leavesHostEmpty() {
            return hostTokens == 0 && !draft.offloads();
        }
    }

    /**
     * What the strategy offers with a step.
     *
     * @param gain predicted, of this step over GPU-only's
     * @param enough whether as much is expected as is wanted
     * @param begins whether offloading begins with the step
     * @param inBurst whether the step is one of the first burst
     * @param burstEnds requests that will have ended when the burst has
     */
    private record Offer(double gain, boolean enough, boolean begins, boolean inBurst, long burstEnds) {}

    /**
     * @param kind of the strategy: what its steps may be
     * @param drain follows the strategy when it is given up, until the host is empty
     * @param predictor for this executor, swaps included
     */
    public Guard(Policy strategy, Strategy kind, Policy gpuOnly, Policy drain, StepPredictor predictor, Limits limits) {
        this.strategy = strategy;
        this.gpuOnly = gpuOnly;
        this.drain = drain;
        this.gpuFirst = !kind.allHost();
        this.predictor = predictor;
        this.limits = limits;
        this.pause = limits.pause();
        this.window = new Throughput(limits.window());
        this.alone = new Throughput(limits.window());
        this.filling = new Filling(limits.window(), limits.forecast());
        this.estimates = switch (kind) {
            case GPU_ONLY -> List.of();
            case ASYNC_OVERLAP -> List.of(new SpeedupEstimate(predictor, Kind.IN_FLIGHT));
            case APEX ->
                List.of(
                        new SpeedupEstimate(predictor, Kind.IN_FLIGHT),
                        new SpeedupEstimate(predictor, Kind.TWO_PASSES_WITH_PROMPTS));
            case ASYMMETRIC, NEO -> List.of(new SpeedupEstimate(predictor, Kind.TWO_PASSES_WITH_PROMPTS));
            case SIMPLE_OFFLOAD, SYMMETRIC, FASTDECODE_PLUS -> List.of(new SpeedupEstimate(predictor, Kind.TWO_PASSES));
        };
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        Drafted next = drafted(state, why);
        drafts.add(next.draft(), next);
        return next.draft();
    }

    private Drafted drafted(SchedulerState state, Decision why) {
        if (draining && hostTokens(state) > 0) {
            return uncounted(drain.draft(state, why), Mode.DRAINING);
        }
        return pausedFor > 0 ? paused(state, why) : offered(state, why);
    }

    private static int hostTokens(SchedulerState state) {
        return state.host().size() + state.inFlight().size();
    }

    private Drafted offered(SchedulerState state, Decision why) {
        if (gpuFirst && state.waiting().isEmpty() && hostTokens(state) == 0) {
            StepDraft plain = gpuOnly.draft(state, why);
            if (plain.drops().isEmpty() && plain.outs().isEmpty()) {
                return uncounted(plain, Mode.OPEN); // the GPU has room for everybody
            }
        }
        StepDraft offload = strategy.draft(state, why);
        if (!offload.offloads() && offloading && hostTokens(state) > 0) {
            return counted(offload, Mode.OPEN, window, predictor.secondsPerToken(offload.load(0)));
        }
        StepDraft plain = gpuOnly.draft(state, new Decision());
        if (!offload.offloads()) {
            why.because("guard: the strategy leaves the host alone, so gpu-only");
            return burstEnds < 0 || isInBurst(state, burstEnds)
                    ? uncounted(plain, Mode.OPEN)
                    : gpuOnlys(plain, Mode.OPEN);
        }
        if (plain.load(0).rows() == 0) {
            return uncounted(offload, Mode.OPEN);
        }
        return decided(plain, offload, why);
    }

    /** The strategy would offload: that must gain enough for long enough, and is counted from then on. */
    private Drafted decided(StepDraft plain, StepDraft offload, Decision why) {
        SchedulerState state = plain.state();
        double secondsPerToken = predictor.secondsPerToken(plain.load(0));
        double offloadRate = rate(offload, secondsPerToken, why);
        double gain = offloadRate / rate(plain, secondsPerToken, why) - 1;
        SpeedupEstimate.Outlook outlook = outlook(plain);
        boolean grows = hostTokens(state) < GROWN * outlook.rows();
        double expected = grows ? Math.max(meanGainWith(gain), outlook.gain()) : meanGainWith(gain);
        double wanted =
                limits.margin() + limits.errorWeight() * predictor.cost().error();
        boolean enough = expected >= wanted;
        boolean begins = !offloading && enough && votes + 1 >= limits.votes() && alone.isComplete();
        boolean goes = offloading || begins;
        long ends = burstEnds < 0 ? state.ended() + state.gpu().size() : burstEnds;
        boolean inBurst = !goes && isInBurst(state, ends);
        if (!goes) {
            why.because("guard: gain %.1f %% of at least %.1f %%, so gpu-only", expected * 100, wanted * 100);
        }
        StepDraft draft = goes ? offload : plain;
        Optional<Throughput> where = inBurst ? Optional.empty() : Optional.of(goes ? window : alone);
        Offer offer = new Offer(gain, enough, begins, inBurst, goes ? burstEnds : ends);
        Work work = inBurst ? NO_WORK : predictor.work(draft);
        return new Drafted(
                draft, Mode.OPEN, where, work, secondsPerToken, hostTokens(state), grows, Optional.of(offer));
    }

    /**
     * At first all prompts are computed at once and nothing ends: what GPU-only does then is not what it does later.
     *
     * @param ends requests that will have ended when the burst has
     */
    private boolean isInBurst(SchedulerState state, long ends) {
        return state.ended() < ends && burstSteps < limits.burst() * limits.window();
    }

    private Drafted paused(SchedulerState state, Decision why) {
        StepDraft plain = gpuOnly.draft(state, new Decision());
        why.because("guard: offloading lost, so gpu-only for %d more steps", pausedFor);
        return gpuOnlys(plain, Mode.PAUSED);
    }

    /** GPU-only's own step, which counts while requests are short of KV. */
    private Drafted gpuOnlys(StepDraft plain, Mode mode) {
        if (plain.state().waiting().isEmpty() && plain.state().host().isEmpty()) {
            return uncounted(plain, mode);
        }
        return counted(plain, mode, alone, predictor.secondsPerToken(plain.load(0)));
    }

    private Drafted uncounted(StepDraft draft, Mode mode) {
        int hostTokens = hostTokens(draft.state());
        return new Drafted(draft, mode, Optional.empty(), NO_WORK, 0, hostTokens, growing, Optional.empty());
    }

    private Drafted counted(StepDraft draft, Mode mode, Throughput where, double secondsPerToken) {
        Work work = predictor.work(draft);
        int hostTokens = hostTokens(draft.state());
        return new Drafted(
                draft, mode, Optional.of(where), work, secondsPerToken, hostTokens, growing, Optional.empty());
    }

    /** Steps differ: some land prompts, some do not. */
    private double meanGainWith(double gain) {
        return meanGain + (gain - meanGain) / Math.min(predictions + 1, limits.window());
    }

    private SpeedupEstimate.Outlook outlook(StepDraft plain) {
        SpeedupEstimate.Outlook best = new SpeedupEstimate.Outlook(0, 0);
        for (SpeedupEstimate estimate : estimates) {
            SpeedupEstimate.Outlook outlook = estimate.of(plain);
            best = outlook.gain() > best.gain() ? outlook : best;
        }
        return best;
    }

    private double rate(StepDraft draft, double secondsPerToken, Decision why) {
        double seconds = predictor.of(draft);
        double normalisedWork = predictor.work(draft).normalisedWork(secondsPerToken);
        int rows = draft.totalRows();
        int cpu = draft.load(0).cpuRows()
                + draft.load(1).cpuRows()
                + draft.admissions().size();
        why.consider(new Candidate(draft.shape(), rows, cpu, seconds, normalisedWork));
        return seconds > 0 ? normalisedWork / seconds : 0;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        strategy.completed(draft, achieved);
        drain.completed(draft, achieved);
        drafts.completed(draft).ifPresent(step -> completed(step, achieved));
    }

    private void completed(Drafted step, double achieved) {
        if (step.mode() == Mode.PAUSED && pausedFor > 0) {
            pausedFor--;
        }
        draining &= !step.leavesHostEmpty();
        step.offer().ifPresent(offer -> learn(offer, step.growing()));
        if (achieved > 0) {
            step.where().ifPresent(where -> count(where, step, achieved));
        }
    }

    /** Offloading begins by prediction; only what was measured ends it. */
    private void learn(Offer offer, boolean grows) {
        meanGain = meanGainWith(offer.gain());
        predictions = grows ? 0 : predictions + 1; // of a host that is filling they say little about one that is full
        growing = grows;
        burstEnds = burstEnds < 0 ? offer.burstEnds() : burstEnds;
        burstSteps += offer.inBurst() ? 1 : 0;
        votes = offloading || !offer.enough() ? 0 : votes + 1;
        if (offer.begins() && !offloading) {
            votes = 0;
            offloading = true;
            draining = false;
            doubtful = false;
            credit = 0;
            filling.begin(LONGEST * alone.horizonSeconds());
            window.clear();
        }
    }

    private void count(Throughput where, Drafted step, double achieved) {
        if (where == window && !offloading) {
            return; // drafted before a window was lost
        }
        if (where == window && step.growing() && filling.lasts()) {
            boolean ended = filling.add(step.work(), step.secondsPerToken(), achieved, step.hostTokens());
            if (ended && filling.window().isHopelessBeside(alone)) {
                lose(filling.window().share(alone));
            }
            return;
        }
        where.add(step.work(), step.secondsPerToken(), achieved);
        if (window.isComplete(LONGEST * alone.horizonSeconds())) {
            judge();
            window.clear();
        }
    }

    private void judge() {
        double price = alone.price();
        if (Math.max(window.price() / price, price / window.price()) > COMPARABLE) {
            stop();
            alone.clear();
            LOG.log(
                    Level.INFO,
                    "a token costs {0} ms instead of {1} now: GPU-only is measured again",
                    1e3 * window.price(),
                    1e3 * price);
            return;
        }
        double share = window.share(alone);
        credit = Math.min(MAX_CREDIT, credit + share - 1);
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
        stop();
        LOG.log(
                Level.WARNING,
                "offloading did in a second, over {0} steps, what GPU-only does in {1} s: GPU-only for {2} steps",
                limits.window(),
                share,
                pausedFor);
    }

    private void stop() {
        offloading = false;
        draining = true;
        votes = 0;
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
