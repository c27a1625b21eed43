package dev.tandem.server.metrics;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.strategy.select.Phase;
import dev.tandem.engine.strategy.select.StrategySelector;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.OptionalDouble;
import java.util.function.DoubleSupplier;
import org.jspecify.annotations.Nullable;

/**
 * What the engine did last: steps, tokens per second, latencies, and the phases of the guard. It writes numbers into
 * arrays of fixed length, so that the engine thread allocates nothing for it but one record per change of phase.
 *
 * <p>Owned by: the engine thread adds, any thread reads; both hold the object's lock, a reader only while it copies.
 */
public final class EngineHistory implements EngineListener {
    /** Steps that are kept: a page that reads twice per second sees all steps of 4 ms or more. */
    static final int STEPS = 128;
    /** Seconds whose tokens are kept. */
    static final int SECONDS = 120;
    /** Latencies from which percentiles are taken. */
    static final int LATENCIES = 1024;
    /** Changes of the guard's phase that are kept. */
    static final int PHASES = 64;

    private static final long NANOS_PER_SECOND = 1_000_000_000L;

    /**
     * One step; times are in nanoseconds of the engine's clock.
     *
     * @param step its number
     * @param begin when the executor began with it
     * @param executed time until its result
     * @param planned time that planning took
     * @param cpuAttention time of the CPU's attention; 0 where there was none, or the executor does not measure it
     * @param hostWait time that the GPU waited for it
     * @param prefill prompt tokens
     * @param decode decoded tokens
     * @param host those of them whose attention read host KV
     * @param swaps sequences that were moved between the tiers
     */
    public record Step(
            long step,
            long begin,
            long executed,
            long planned,
            long cpuAttention,
            long hostWait,
            int prefill,
            int decode,
            int host,
            int swaps) {}

    /**
     * Tokens per second of the last {@link #SECONDS} seconds, oldest first; the second that has begun is left out.
     *
     * @param output tokens that clients received
     * @param host decoded tokens whose attention read host KV
     * @param prompt computed prompt tokens
     */
    public record Rates(int[] output, int[] host, int[] prompt) {}

    /**
     * Percentiles of the last latencies in nanoseconds; 0 when there are none.
     *
     * @param count number of latencies
     */
    public record Latencies(int count, long p50, long p99) {
        static Latencies of(long[] ring, long added) {
            int count = (int) Math.min(added, ring.length);
            if (count == 0) {
                return new Latencies(0, 0, 0);
            }
            long[] sorted = Arrays.copyOf(ring, count);
            Arrays.sort(sorted);
            return new Latencies(count, sorted[(count - 1) / 2], sorted[(int) Math.ceil(0.99 * count) - 1]);
        }
    }

    /**
     * A change of the guard's phase.
     *
     * @param nanos when the first step of the phase ended
     * @param losses windows that offloading had lost by then
     * @param measuredGain the last measured gain of offloading; 0.1 is 10 %
     */
    public record PhaseChange(long nanos, long step, Phase phase, int losses, OptionalDouble measuredGain) {}

    /**
     * The guard and its gains as fractions.
     *
     * @param present whether the server has a guard
     * @param offloading whether an arm offloads
     * @param expected by the cost model
     * @param measured in the last window that was compared
     * @param ideal of the best schedule on this machine
     * @param changes of the phase, oldest first
     */
    public record GuardState(
            boolean present,
            boolean offloading,
            int losses,
            OptionalDouble expected,
            OptionalDouble measured,
            OptionalDouble ideal,
            List<PhaseChange> changes) {}

    /**
     * A copy of the history.
     *
     * @param nanos when it was made
     * @param steps oldest first
     */
    public record View(
            long nanos,
            List<Step> steps,
            Rates rates,
            Latencies timeToFirstToken,
            Latencies timePerToken,
            GuardState guard) {}

    private final Clock clock;
    private final String strategy;
    private final long startedNanos;

    /** [STEPS] by the step's count, modulo. */
    private final long[] steps = new long[STEPS];

    private final long[] begins = new long[STEPS];
    private final long[] executed = new long[STEPS];
    private final long[] planned = new long[STEPS];
    private final long[] cpuAttention = new long[STEPS];
    private final long[] hostWait = new long[STEPS];
    private final int[] prefill = new int[STEPS];
    private final int[] decode = new int[STEPS];
    private final int[] host = new int[STEPS];
    private final int[] swaps = new int[STEPS];
    private long stepCount;
    private long lastEnd;

    /** [SECONDS + 1] by the second since the start, modulo; the further one is the second that has begun. */
    private final int[] outputTokens = new int[SECONDS + 1];

    private final int[] hostTokens = new int[SECONDS + 1];
    private final int[] promptTokens = new int[SECONDS + 1];
    private long second;

    private final long[] firstTokens = new long[LATENCIES];
    private long firstTokenCount;
    private final long[] nextTokens = new long[LATENCIES];
    private long nextTokenCount;

    private final Deque<PhaseChange> changes = new ArrayDeque<>(PHASES);
    private @Nullable StrategySelector guard;
    private @Nullable Phase phase;
    private DoubleSupplier idealRatio = () -> Double.NaN;

    /**
     * Creates an empty history.
     *
     * @param clock the engine's
     * @param strategy name of the strategy that was chosen at the start
     */
    public EngineHistory(Clock clock, String strategy) {
        this.clock = clock;
        this.strategy = strategy;
        this.startedNanos = clock.nanos();
        this.lastEnd = startedNanos;
    }

    /** Adds the phases of the guard. */
    public synchronized void watch(StrategySelector selector) {
        guard = selector;
    }

    /**
     * Adds the gain that the measured one is held against.
     *
     * @param ratio throughput of the best schedule over that of the GPU alone; NaN where it is not known
     */
    public synchronized void watchIdeal(DoubleSupplier ratio) {
        idealRatio = ratio;
    }

    /** Name of the strategy that was chosen at the start. */
    public String strategy() {
        return strategy;
    }

    @Override
    public synchronized void step(StepRecord record) {
        int at = (int) (stepCount++ % STEPS);
        long submitted = record.startedNanos() + record.planNanos();
        long begin = Math.max(submitted, lastEnd); // a step that was planned ahead begins after the one before
        lastEnd = begin + record.executeNanos();
        steps[at] = record.step();
        begins[at] = begin;
        executed[at] = record.executeNanos();
        planned[at] = record.planNanos();
        cpuAttention[at] = record.times().cpuAttention();
        hostWait[at] = record.times().hostWait();
        prefill[at] = record.tokens().prefill();
        decode[at] = record.tokens().decode();
        host[at] = record.tokens().host();
        swaps[at] = record.swaps();
        int now = secondOf(lastEnd);
        promptTokens[now] += record.tokens().prefill();
        hostTokens[now] += record.tokens().host();
        notePhase(record.step());
    }

    private void notePhase(long step) {
        StrategySelector selector = guard;
        if (selector == null || selector.phase() == phase) {
            return;
        }
        phase = selector.phase();
        if (changes.size() == PHASES) {
            changes.removeFirst();
        }
        changes.addLast(new PhaseChange(lastEnd, step, selector.phase(), selector.losses(), selector.measuredGain()));
    }

    /** The index of an instant's second; seconds since the last one become empty. */
    private int secondOf(long nanos) {
        long wanted = Math.max(second, (nanos - startedNanos) / NANOS_PER_SECOND);
        for (long empty = Math.max(second + 1, wanted - SECONDS); empty <= wanted; empty++) {
            int at = (int) (empty % (SECONDS + 1));
            outputTokens[at] = 0;
            hostTokens[at] = 0;
            promptTokens[at] = 0;
        }
        second = wanted;
        return (int) (wanted % (SECONDS + 1));
    }

    @Override
    public synchronized void firstToken(Request request, long sinceArrival) {
        outputTokens[secondOf(lastEnd)]++;
        firstTokens[(int) (firstTokenCount++ % LATENCIES)] = sinceArrival;
    }

    @Override
    public synchronized void nextToken(Request request, long sincePrevious) {
        outputTokens[secondOf(lastEnd)]++;
        nextTokens[(int) (nextTokenCount++ % LATENCIES)] = sincePrevious;
    }

    /** A copy of the history. */
    public View view() {
        long now = clock.nanos();
        DoubleSupplier ideal;
        List<Step> last;
        Rates rates;
        long[] first;
        long[] next;
        long firstCount;
        long nextCount;
        List<PhaseChange> phases;
        StrategySelector selector;
        synchronized (this) {
            secondOf(now);
            last = lastSteps();
            rates = new Rates(lastSeconds(outputTokens), lastSeconds(hostTokens), lastSeconds(promptTokens));
            first = firstTokens.clone();
            firstCount = firstTokenCount;
            next = nextTokens.clone();
            nextCount = nextTokenCount;
            phases = List.copyOf(changes);
            selector = guard;
            ideal = idealRatio;
        }
        double ratio = ideal.getAsDouble();
        GuardState shown = new GuardState(
                selector != null,
                selector != null && selector.isOffloading(),
                selector == null ? 0 : selector.losses(),
                selector == null ? OptionalDouble.empty() : selector.expectedGain(),
                selector == null ? OptionalDouble.empty() : selector.measuredGain(),
                Double.isNaN(ratio) ? OptionalDouble.empty() : OptionalDouble.of(ratio - 1),
                phases);
        return new View(now, last, rates, Latencies.of(first, firstCount), Latencies.of(next, nextCount), shown);
    }

    private List<Step> lastSteps() {
        List<Step> list = new ArrayList<>(STEPS);
        for (long step = Math.max(0, stepCount - STEPS); step < stepCount; step++) {
            int at = (int) (step % STEPS);
            list.add(new Step(
                    steps[at],
                    begins[at],
                    executed[at],
                    planned[at],
                    cpuAttention[at],
                    hostWait[at],
                    prefill[at],
                    decode[at],
                    host[at],
                    swaps[at]));
        }
        return list;
    }

    private int[] lastSeconds(int[] ring) {
        int count = (int) Math.min(second, SECONDS);
        int[] list = new int[count];
        for (int i = 0; i < count; i++) {
            list[i] = ring[(int) ((second - count + i) % (SECONDS + 1))];
        }
        return list;
    }
}
