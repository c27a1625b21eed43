package dev.tandem.cuda.step;

import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.hostattention.HostTokenTracker;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.sampling.PromptScores;
import dev.tandem.cuda.sampling.SampleReport;
import dev.tandem.cuda.step.StepLauncher.Launched;
import dev.tandem.cuda.step.StepLauncher.Sampling;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/**
 * The steps that have been submitted and not polled. Each is launched when it is submitted, and fails at its deadline.
 *
 * <p>Async scheduling: while a short step runs whose logits the host does not need, the next may be submitted. Its
 * placeholder tokens are on the GPU. When the next step swaps or is long, {@link #submit} waits for the first. A step
 * whose draws depend on the tokens of the first is sampled by {@link #sample}: the GPU computes its layers while the
 * host reads these tokens.
 *
 * <p>Owned by: engine thread, except {@link #trouble}.
 */
public final class OutstandingSteps {
    /**
     * Max wait for the running step when the executor is closed, so that a server whose GPU hangs ends within five
     * seconds.
     */
    private static final long CLOSE_NANOS = 2_000_000_000L;

    private final Stream stream;
    private final StepLauncher launcher;
    private final KvPools pools;
    private final GpuClock clock;
    private final StepTrace trace;
    private final SampleReport report;
    private final StepResults results;
    /** Empty without attention threads. */
    private final Optional<HostTokenTracker> hostTokens;

    private final int maxSlots;
    private final Clock time;
    private final long watchdogNanos;
    private final ArrayDeque<Outstanding> outstanding = new ArrayDeque<>();
    private final ArrayDeque<StepResult> finished = new ArrayDeque<>();
    private StepDeadline deadline = StepDeadline.USUAL;
    private boolean allowsNext;
    /** The last submitted step waits for {@link #sample}. */
    private boolean unsampled;
    /** The step that the engine thread waits for; other threads read it. */
    private volatile Optional<InFlightStep> underWay = Optional.empty();

    /**
     * A step that has been submitted.
     *
     * @param clock its slot in the clock's ring
     * @param limitNanos max time on the GPU
     */
    private record Outstanding(StepPlan plan, Launched launched, int clock, long limitNanos) {}

    /**
     * A step that is being submitted or runs.
     *
     * @param began when its launch began, or when the GPU finished the step before
     */
    private record InFlightStep(long step, long began, long limitNanos) {}

    /**
     * @param maxSlots of a step; 0 without attention threads
     * @param watchdogNanos time after which an attention task counts as stalled
     */
    public OutstandingSteps(
            Stream stream,
            StepLauncher launcher,
            KvPools pools,
            GpuClock clock,
            StepTrace trace,
            SampleReport report,
            PromptScores scores,
            Optional<HostTokenTracker> hostTokens,
            int maxSlots,
            Clock time,
            long watchdogNanos) {
        this.stream = stream;
        this.launcher = launcher;
        this.pools = pools;
        this.clock = clock;
        this.trace = trace;
        this.report = report;
        this.results = new StepResults(report, scores, hostTokens);
        this.hostTokens = hostTokens;
        this.maxSlots = maxSlots;
        this.time = time;
        this.watchdogNanos = watchdogNanos;
    }

    /** As {@link Executor#submit}. */
    public void submit(StepPlan plan) {
        if (!outstanding.isEmpty() || !finished.isEmpty()) {
            PlanRows.requireIndependent(plan);
        }
        submit(plan, Sampling.NOW);
    }

    /** As {@link Executor#submitLayers}. */
    public void submitLayers(StepPlan plan) {
        submit(plan, Sampling.LATER);
    }

    private void submit(StepPlan plan, Sampling sampling) {
        requireSampled();
        if (outstanding.size() + finished.size() == Executor.MAX_OUTSTANDING) {
            throw new ExecutorException("more than " + Executor.MAX_OUTSTANDING + " plans are outstanding");
        }
        List<List<Chunk>> batches = PlanRows.ordered(plan, maxSlots);
        long limitNanos = limitNanos(plan, batches);
        try {
            StepLauncher.LaunchKind kind = launcher.kindOf(plan, batches);
            boolean isShort = launcher.isShort(plan, batches);
            if (!outstanding.isEmpty() && !(allowsNext && isShort)) {
                finished.add(complete(outstanding.poll())); // this step may overwrite its list of swaps or its logits
            }
            if (outstanding.isEmpty()) {
                underWay = Optional.of(new InFlightStep(plan.step(), time.nanos(), limitNanos));
            }
            int slot = clock.begin(stream);
            pools.beginStep(plan.swaps(), PlanRows.staging(plan));
            hostTokens.ifPresent(tokens -> plan.pause().forEach(tokens.queues()::pause));
            Launched launched = launcher.launch(plan, batches, kind, sampling, addresses(slot));
            outstanding.add(new Outstanding(plan, launched, slot, limitNanos));
            unsampled = sampling == Sampling.LATER;
            if (unsampled) {
                clock.pause(stream, slot);
            } else {
                clock.end(stream, slot);
            }
            allowsNext = isShort
                    && launched.onGpu()
                    && hostTokens.stream().noneMatch(tokens -> tokens.queues().needsLogits());
        } catch (CudaException e) {
            throw new ExecutorException(String.valueOf(e.getMessage()), e);
        }
    }

    private StepLauncher.Report addresses(int slot) {
        return new StepLauncher.Report(report.of(slot).address(), trace.stamps(slot), report.logprobs(slot));
    }

    /** As {@link Executor#sample}. */
    public void sample(Set<Long> skipped) {
        if (!unsampled || outstanding.size() + finished.size() > 1) {
            throw new ExecutorException("no plan waits to be sampled, or the result of the one before was not polled");
        }
        try {
            Outstanding step = outstanding.remove();
            Launched launched = launcher.draw(step.launched(), skipped);
            outstanding.add(new Outstanding(step.plan(), launched, step.clock(), step.limitNanos()));
            clock.resume(stream, step.clock()); // until here the GPU has nothing to do, bitmasks included
            launcher.sampleLater(launched, addresses(step.clock()));
            clock.end(stream, step.clock());
            unsampled = false;
        } catch (CudaException e) {
            throw new ExecutorException(String.valueOf(e.getMessage()), e);
        }
    }

    /** No result can come of a step that is not sampled; its end was never recorded. */
    private void requireSampled() {
        if (unsampled && outstanding.size() + finished.size() == 1) {
            throw new ExecutorException("the last plan was submitted without its sampling; sample it first");
        }
    }

    /** As {@link Executor#allowsAsyncScheduling}. */
    public boolean allowsAsyncScheduling() {
        return allowsNext;
    }

    /** As {@link Executor#poll}. */
    public StepResult poll() {
        requireSampled();
        if (!finished.isEmpty()) {
            return finished.poll();
        }
        if (outstanding.isEmpty()) {
            throw new ExecutorException("no plan is outstanding");
        }
        return complete(outstanding.poll());
    }

    private long limitNanos(StepPlan plan, List<List<Chunk>> batches) {
        int rows = PlanRows.slots(plan, maxSlots) + plan.resume().size();
        boolean waits = !plan.resume().isEmpty();
        for (List<Chunk> chunks : batches) {
            for (Chunk chunk : chunks) {
                rows += chunk.rows();
                waits |= chunk.site() == AttentionSite.CPU_FROM_HOST;
            }
        }
        return deadline.nanos(rows, waits, watchdogNanos);
    }

    /**
     * Describes a step that takes suspiciously long. The engine thread fails it at its deadline, unless that thread
     * hangs in the driver itself. Any thread may call it.
     */
    public Optional<String> trouble() {
        return underWay.flatMap(step -> {
            long taken = time.nanos() - step.began();
            return taken < StepDeadline.suspiciousNanos(step.limitNanos())
                    ? Optional.empty()
                    : Optional.of(String.format(
                            Locale.ROOT,
                            "step %d has kept the GPU for %.1f s; after %.1f s the GPU counts as hung",
                            step.step(),
                            taken / 1e9,
                            step.limitNanos() / 1e9));
        });
    }

    private StepResult complete(Outstanding step) {
        try {
            Launched launched = step.launched();
            long number = step.plan().step();
            Runnable meanwhile = launched.passes() > 0 ? hostTokens.orElseThrow()::watch : () -> {};
            float millis = clock.await(step.clock(), number, step.limitNanos(), meanwhile);
            underWay = Optional.ofNullable(outstanding.peek())
                    .map(next -> new InFlightStep(next.plan().step(), time.nanos(), next.limitNanos()));
            trace.record(step.clock(), number, launched, millis);
            pools.verify();
            return results.of(number, launched, step.clock(), trace.hostWait(step.clock(), launched, millis));
        } catch (CudaException e) {
            throw new ExecutorException(String.valueOf(e.getMessage()), e);
        }
    }

    /** For tests: sets how long steps may take. */
    public void deadline(StepDeadline limit) {
        deadline = limit;
    }

    /**
     * Waits for the running step, whose memory must not be freed.
     *
     * @return whether it ended; also when it failed
     */
    public boolean runOut() {
        try {
            return stream.runsOut(CLOSE_NANOS);
        } catch (CudaException e) {
            System.getLogger(OutstandingSteps.class.getName())
                    .log(System.Logger.Level.DEBUG, "the last step failed: {0}", e.getMessage());
            return true;
        }
    }
}
