package dev.tandem.engine.loop;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvEvent;
import dev.tandem.engine.kv.KvEventSink;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.observe.IsolatedListener;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.output.OutputProcessor;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.queue.EngineCommand;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.PlanCommitter;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import java.util.List;
import java.util.Objects;

/**
 * The engine thread's loop: drain commands, plan a step, execute it, commit its result, emit its tokens. Start reading
 * at {@link #step()}.
 *
 * <p>Owned by: engine thread.
 */
public final class EngineLoop {
    /**
     * Consecutive empty plans, while sequences are live and no step runs, after which the first request fails. Only
     * time or a command can change such a state. The engine thread plans again every millisecond, so a policy may wait
     * for up to a second.
     */
    private static final int MAX_EMPTY_PLANS = 1000;

    private final AdmissionQueue arrivals;
    private final Scheduler scheduler;
    private final Executor executor;
    private final Clock clock;
    private final EngineListener listener;
    private final KvCache kv;
    private final long kvBytesPerToken;
    private final KvEventSink kvEvents;
    private final SchedulerState state;
    private final PlanCommitter committer;
    private final StepPipeline pipeline;
    private final LiveRequests requests;
    private final OutputProcessor output;
    private final SnapshotRequests snapshots;
    private String hostLost = "";
    private int emptyPlans;
    private volatile EngineStats stats;

    /** Creates a loop without requests; the caller is the engine thread from then on. */
    public EngineLoop(
            EngineConfig config,
            AdmissionQueue arrivals,
            Scheduler scheduler,
            Executor executor,
            Clock clock,
            EngineListener listener) {
        this(config, arrivals, scheduler, executor, clock, listener, KvEventSink.NONE);
    }

    /**
     * Creates a loop without requests; the caller is the engine thread from then on.
     *
     * @param kvEvents receives the changes of the prefix cache after each step
     */
    public EngineLoop(
            EngineConfig config,
            AdmissionQueue arrivals,
            Scheduler scheduler,
            Executor executor,
            Clock clock,
            EngineListener listener,
            KvEventSink kvEvents) {
        this.arrivals = arrivals;
        this.scheduler = scheduler;
        this.executor = executor;
        this.clock = clock;
        this.listener = new IsolatedListener(listener);
        var limits = executor.limits();
        this.kvEvents = kvEvents;
        this.kv = new KvCache(
                limits.blockTokens(),
                limits.hostBlockTokens(),
                limits.pages(KvTier.GPU),
                limits.pages(KvTier.HOST),
                limits.staging(),
                config.prefixCache().withEvents(kvEvents != KvEventSink.NONE),
                limits.maxSharedBlocks(),
                limits.layout().withMaxChunk(config.budget().maxBatchTokens()),
                limits.span());
        this.kvBytesPerToken = limits.kvBytesPerToken();
        this.state = new SchedulerState(kv, scheduler.copies());
        this.committer = new PlanCommitter(state);
        this.pipeline = new StepPipeline(executor, clock, state, committer);
        this.requests = new LiveRequests(config, arrivals, clock, this.listener, committer, pipeline);
        this.output = requests.output();
        this.snapshots = new SnapshotRequests(clock);
        this.stats = snapshot();
    }

    /**
     * One turn: submits a step if one may be planned, then waits for the oldest step unless the next is to be planned
     * first. False when there was nothing to compute.
     */
    public boolean step() {
        boolean submitted = false;
        if (pipeline.acceptsPlan()) {
            drain();
            // a cancelled sequence that the CPU attends for must leave the scheduler first
            submitted = pipeline.acceptsPlan() && execute(plan());
        }
        boolean computes = !pipeline.isEmpty();
        if (!computes) {
            output.process();
            countEmptyPlan();
        } else if (!submitted || !pipeline.plansAhead()) {
            emit(commit());
        }
        offerKvEvents();
        stats = snapshot();
        snapshots.answer(state);
        return computes;
    }

    private void offerKvEvents() {
        List<KvEvent> events = kv.takeEvents();
        if (!events.isEmpty()) {
            kvEvents.offer(events);
        }
    }

    /** Takes the commands that are present now. Commands that a sink adds meanwhile wait for the next turn. */
    private void drain() {
        for (int left = arrivals.commands(); left > 0; left--) {
            switch (Objects.requireNonNull(arrivals.poll())) { // no other thread polls
                case EngineCommand.Submit submit -> requests.accept(submit);
                case EngineCommand.Cancel cancel -> requests.cancel(cancel.requestId());
                case EngineCommand.ResetPrefixCache reset -> committer.resetPrefixes();
            }
        }
    }

    private StepPlan plan() {
        committer.now(clock.nanos());
        return scheduler.plan(state, committer);
    }

    /** Submits the plan; false when it is empty. */
    private boolean execute(StepPlan plan) {
        if (plan.isEmpty()) {
            return false;
        }
        emptyPlans = 0;
        requests.start(plan, state.now());
        if (executor.computesInSubmit()) {
            output.process();
        }
        pipeline.submit(plan, state.now());
        return true;
    }

    /** Waits for the oldest step and applies its result; meanwhile clients receive the tokens of the step before. */
    private StepPipeline.Settled commit() {
        output.process();
        StepPipeline.Settled settled = pipeline.settle();
        for (StepResult.Lost lost : settled.result().lost()) {
            if (lost.cause() == StepResult.Cause.HOST_ATTENTION) {
                hostLost = lost.message();
            }
            output.process(); // the request's tokens come before its failure
            pipeline.lose(settled.step().plan(), lost).ifPresent(sequence -> requests.fail(sequence, lost.message()));
        }
        return settled;
    }

    /**
     * Appends the sampled tokens, which the next plan and the sampling of a running step need, and queues them for
     * their clients. Clients receive them while the next step runs, unless stop strings decide whether the request goes
     * on.
     */
    private void emit(StepPipeline.Settled settled) {
        long now = settled.settledNanos();
        pipeline.register(settled.step(), settled.result());
        for (StepResult.Sampled sampled : settled.result().sampled()) {
            Sequence sequence = pipeline.get(sampled.sequence());
            if (sequence != null) { // else it was cancelled or ended while the step ran
                requests.append(sequence, sampled, now);
            }
        }
        pipeline.sample();
        pipeline.freeLeaving();
        Decision decision = scheduler.completed(settled.result(), settled.tookNanos());
        StepPipeline.Step step = settled.step();
        StepRecord record = StepRecord.of(
                step.plan(),
                settled.result(),
                step.started(),
                step.planNanos(),
                settled.tookNanos(),
                step.sampling().record());
        step.event().commit(record, decision);
        listener.step(record);
    }

    /** Fails the first live request after too many empty plans; the next plan may have room for the others. */
    private void countEmptyPlan() {
        boolean stuck = !state.isIdle() && !arrivals.hasCommands();
        emptyPlans = stuck ? emptyPlans + 1 : 0;
        if (emptyPlans >= MAX_EMPTY_PLANS) {
            emptyPlans = 0;
            requests.failUnschedulable(state, MAX_EMPTY_PLANS);
        }
    }

    /** Ends every request because the executor is gone; each client receives its last event. */
    void failAll(String message) {
        pipeline.abandon();
        requests.failAll(message);
        pipeline.clear();
        stats = snapshot();
        snapshots.answer(state);
    }

    /** Queues and pools after the last step. Any thread. */
    public EngineStats stats() {
        return stats;
    }

    /** Passes the live requests to threads that ask. Any thread. */
    SnapshotRequests snapshots() {
        return snapshots;
    }

    /** Checks that no block is lost, shared or leaked; for tests and idle moments. */
    public void checkIntegrity() {
        state.checkIntegrity();
    }

    /** True when no request is live and no command, step or output is pending. */
    public boolean isIdle() {
        return state.isIdle() && !arrivals.hasCommands() && output.isEmpty() && pipeline.isEmpty();
    }

    private EngineStats snapshot() {
        return EngineStats.of(state, arrivals.waiting(), requests.notStarted(), kvBytesPerToken, hostLost);
    }
}
