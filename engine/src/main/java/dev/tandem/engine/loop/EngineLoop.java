package dev.tandem.engine.loop;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.observe.IsolatedListener;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.output.OutputProcessor;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.queue.EngineCommand;
import dev.tandem.engine.queue.WaitingQueue;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.schedule.PlanCommitter;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.SubBatch;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;

/**
 * The engine's heart. Start reading at {@link #step()}.
 *
 * <p>Owned by: engine thread.
 */
public final class EngineLoop {
    private static final Logger LOG = System.getLogger(EngineLoop.class.getName());
    /**
     * Plans in a row that hold nothing, while sequences are live and no step is under way, before the first of them is
     * given up. No step changes the state then, and only time or a command might; the engine thread plans again every
     * millisecond, so that a policy which waits for a moment has a second.
     */
    private static final int MAX_EMPTY_PLANS = 1000;

    private final EngineConfig config;
    private final AdmissionQueue arrivals;
    private final Scheduler scheduler;
    private final Executor executor;
    private final Clock clock;
    private final EngineListener listener;
    private final SchedulerState state;
    private final PlanCommitter committer;
    private final SplittableRandom seeds;
    private final Map<String, Sequence> byRequest = new HashMap<>();
    private final Map<Long, Sequence> byKey = new HashMap<>();
    private final OutputProcessor output;
    /** Submitted, oldest first: one, or two while the next was planned ahead. */
    private final ArrayDeque<InFlightStep> underWay = new ArrayDeque<>();
    /** Who has ended while a step ran that may touch their blocks. */
    private final List<Sequence> leaving = new ArrayList<>();
    /** Whether a step runs that may touch more than GPU blocks, which every step after it writes in its turn. */
    private boolean exposed;

    private long nextKey;
    /** When the last result came. */
    private long settled = Long.MIN_VALUE;

    private String hostLost = "";
    private int emptyPlans;
    /** Sequences that have not been in a step yet. */
    private int accepted;
    /** Set when the executor is gone: blocks are not accounted for any more. */
    private boolean abandoned;

    private volatile EngineStats stats;

    /**
     * A step whose result is not known yet.
     *
     * @param ahead whether the next is planned before it is, so that what it computes is counted already
     * @param planNanos that planning took
     */
    private record InFlightStep(StepPlan plan, boolean ahead, long started, long planNanos) {}

    public EngineLoop(
            EngineConfig config,
            AdmissionQueue arrivals,
            Scheduler scheduler,
            Executor executor,
            Clock clock,
            EngineListener listener) {
        this.config = config;
        this.arrivals = arrivals;
        this.scheduler = scheduler;
        this.executor = executor;
        this.clock = clock;
        this.listener = new IsolatedListener(listener);
        var limits = executor.limits();
        this.output = new OutputProcessor(this.listener, new OutputProcessor.RequestEnds() {
            @Override
            public void finish(Sequence sequence, FinishReason reason, String text, String stopReason, long now) {
                EngineLoop.this.finish(sequence, reason, text, stopReason, now);
            }

            @Override
            public void fail(Sequence sequence, String message) {
                EngineLoop.this.fail(sequence, message);
            }

            @Override
            public boolean hasEnded(Sequence sequence) {
                return byRequest.get(sequence.request().id()) != sequence;
            }
        });
        this.state = new SchedulerState(
                new KvCache(limits.blockTokens(), limits.hostBlockTokens(), limits.gpuBlocks(), limits.hostBlocks()));
        this.committer = new PlanCommitter(state);
        this.seeds = new SplittableRandom(config.seed());
        this.stats = snapshot();
    }

    /**
     * One turn: submits a step and settles the oldest that is under way, which is another one where the executor runs
     * ahead. False when there was nothing to compute.
     */
    public boolean step() {
        if (underWay.isEmpty() || underWay.getLast().ahead()) {
            drain();
            boolean submitted = submit();
            if (submitted && underWay.size() == 1 && underWay.getLast().ahead()) {
                stats = snapshot();
                return true; // the next is planned while this one runs
            }
        }
        boolean computes = !underWay.isEmpty();
        if (computes) {
            settle(underWay.getFirst());
            underWay.removeFirst();
        } else {
            output.process();
            giveUpWhatCannotBeScheduled();
        }
        stats = snapshot();
        return computes;
    }

    /**
     * No step is under way and none can be planned: such a state does not change, so its requests must not wait for
     * ever.
     */
    private void giveUpWhatCannotBeScheduled() {
        if (state.isIdle() || arrivals.hasCommands()) {
            emptyPlans = 0;
        } else if (++emptyPlans >= MAX_EMPTY_PLANS) {
            emptyPlans = 0;
            Sequence first = state.live().stream().min(WaitingQueue.ORDER).orElseThrow();
            var gpu = state.kv().pool(KvTier.GPU);
            String message = "the request of " + first.length() + " tokens cannot be scheduled: it needs "
                    + state.kv().blocksFor(KvTier.GPU, first.length()) + " KV blocks, and of the GPU pool's "
                    + gpu.size()
                    + " blocks " + gpu.free() + " are free; send a shorter one, or restart the server";
            LOG.log(
                    Level.ERROR,
                    "{0} plans in a row were empty, so request {1} ends: {2}",
                    MAX_EMPTY_PLANS,
                    first,
                    message);
            fail(first, message); // only the first: the next plan may have room for the others
        }
    }

    private boolean submit() {
        long started = clock.nanos();
        committer.now(started);
        StepPlan plan = scheduler.plan(state, committer);
        if (plan.isEmpty()) {
            return false;
        }
        emptyPlans = 0;
        markStarted(plan, started);
        if (executor.computesInSubmit()) {
            output.process();
        }
        long planned = clock.nanos();
        executor.submit(plan);
        boolean ahead = executor.allowsAsyncScheduling();
        if (ahead) {
            commit(plan);
            await(plan);
        }
        exposed = !ahead;
        underWay.add(new InFlightStep(plan, ahead, started, planned - started));
        return true;
    }

    private void settle(InFlightStep step) {
        output.process(); // of the step before, while this one runs
        long submitted = step.started() + step.planNanos();
        StepResult result = executor.poll();
        long executed = clock.nanos();
        long took = executed - Math.max(submitted, settled);
        settled = executed;
        if (!step.ahead()) {
            exposed = false;
            commit(step.plan());
        }
        settleInFlight(step.plan(), result);
        failLost(step.plan(), result);
        emit(result, executed);
        if (!exposed) {
            leaving.forEach(committer::remove);
            leaving.clear();
        }
        scheduler.completed(result, took);
        listener.step(record(step.plan(), result, step.started(), step.planNanos(), took));
    }

    /** Queues and pools after the last step; any thread. */
    public EngineStats stats() {
        return stats;
    }

    /** Checks that no block is lost, shared or leaked; for tests and idle moments. */
    public void checkIntegrity() {
        state.checkIntegrity();
    }

    public boolean isIdle() {
        return state.isIdle() && !arrivals.hasCommands() && output.isEmpty() && underWay.isEmpty();
    }

    /**
     * Takes the commands that are there now; a sink that submits when it hears of a failure cannot hold up the step.
     */
    private void drain() {
        for (int left = arrivals.commands(); left > 0; left--) {
            switch (arrivals.poll()) {
                case EngineCommand.Submit submit -> accept(submit);
                case EngineCommand.Cancel cancel -> {
                    output.process();
                    Sequence sequence = byRequest.get(cancel.requestId());
                    if (sequence != null) {
                        finish(sequence, FinishReason.ABORT, "", "", clock.nanos());
                    }
                }
            }
        }
    }

    private void accept(EngineCommand.Submit submit) {
        Request request = submit.request();
        if (byRequest.containsKey(request.id())) {
            refuse(request, "request id " + request.id() + " is already in use");
            return;
        }
        int room = config.contextTokens() - request.prompt().length;
        int limit = request.prompt().length
                + Math.min(room, request.sampling().maxTokens().orElse(room));
        Sequence sequence;
        try {
            TokenSampler sampler =
                    new TokenSampler(request.sampling(), submit.adjustments(), config.endTokens(), seeds.nextLong());
            sequence = new Sequence(nextKey++, request, submit.arrivedNanos(), limit, sampler);
        } catch (RuntimeException | Error e) { // what it needs is more than there is: memory, for one
            LOG.log(Level.WARNING, "request " + request.id() + " cannot be accepted", e);
            refuse(request, "the request cannot be accepted: " + e);
            return;
        }
        byRequest.put(request.id(), sequence);
        byKey.put(sequence.key(), sequence);
        committer.enqueue(sequence);
        accepted++;
    }

    private void refuse(Request request, String message) {
        left(request);
        listener.failed(request);
        deliverEnd(request, new TokenEvent.Failed(message));
    }

    /** The last event of a request; a sink that throws on it can be told nothing more. */
    private static void deliverEnd(Request request, TokenEvent end) {
        try {
            request.sink().on(end);
        } catch (RuntimeException | Error e) {
            LOG.log(Level.WARNING, "the event sink of request " + request.id() + " failed on its last event", e);
        }
    }

    private void markStarted(StepPlan plan, long now) {
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                Sequence sequence = byKey.get(chunk.sequence());
                if (sequence.timings().scheduledAt(now)) {
                    accepted--;
                    left(sequence.request());
                }
            }
        }
    }

    /** The request waits no longer. The engine's own do not count as waiting. */
    private void left(Request request) {
        if (!ShadowVerification.isOwn(request)) {
            arrivals.left();
        }
    }

    private void commit(StepPlan plan) {
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                Sequence sequence = byKey.get(chunk.sequence());
                if (sequence == null) {
                    continue; // the step before has ended it
                }
                sequence.advance(chunk.rows());
            }
        }
    }

    /**
     * Plans may count on the tokens that the step will sample. Who reaches the limit by that takes part no longer, and
     * its blocks are free: whatever is written there is written after this step.
     */
    private void await(StepPlan plan) {
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                if (chunk.sampler().isEmpty()) {
                    continue;
                }
                Sequence sequence = byKey.get(chunk.sequence());
                sequence.addPlaceholder();
                if (sequence.length() >= sequence.limit()) {
                    leave(sequence, FinishReason.LENGTH);
                }
            }
        }
    }

    /** In-flight tokens that were sampled or parked are the engine's again. */
    private void settleInFlight(StepPlan plan, StepResult result) {
        for (long key : result.parked()) {
            committer.endInFlight(key);
        }
        for (StepResult.Sampled sampled : result.sampled()) {
            if (leftInFlight(plan, sampled.sequence())) {
                Sequence sequence = committer.endInFlight(sampled.sequence());
                if (sequence != null) {
                    sequence.advance(1);
                }
            }
        }
    }

    /**
     * Whether the step had the sequence in flight. One that flies may do so only since the next step, which was planned
     * ahead: then this step computed it as a chunk, and its token is one that was awaited.
     */
    private boolean leftInFlight(StepPlan plan, long key) {
        if (!state.isInFlight(key)) {
            return false;
        }
        Sequence sequence = byKey.get(key);
        if (sequence != null) {
            return sequence.known() == sequence.length();
        }
        // it has ended meanwhile, and awaits nothing
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                if (chunk.sequence() == key) {
                    return false;
                }
            }
        }
        return true;
    }

    /**
     * Requests of sequences that cannot go on end with the reason. A sequence may have ended before, for a step that
     * was planned ahead computes it once more.
     */
    private void failLost(StepPlan plan, StepResult result) {
        for (StepResult.Lost lost : result.lost()) {
            if (lost.cause() == StepResult.Cause.HOST_ATTENTION) {
                hostLost = lost.message();
            }
            output.process(); // of the tokens before
            Sequence sequence = byKey.get(lost.sequence());
            if (leftInFlight(plan, lost.sequence())) {
                committer.lose(lost.sequence(), lost.stillInUse());
                if (sequence != null) {
                    sequence.state(new RequestState.Finished(FinishReason.ABORT)); // and nothing is left to free
                }
            } else if (lost.stillInUse()) {
                holder(lost.sequence()).ifPresent(committer::quarantine);
            }
            if (sequence != null) {
                fail(sequence, lost.message());
            }
        }
    }

    /** The live sequence, or one that has ended and whose blocks a running step may touch. */
    private Optional<Sequence> holder(long key) {
        Sequence sequence = byKey.get(key);
        return sequence != null
                ? Optional.of(sequence)
                : leaving.stream().filter(candidate -> candidate.key() == key).findFirst();
    }

    /**
     * What a sampled token means for the engine is settled at once: the next plan needs it. Telling the client, with
     * the decoding of text, can wait until the next step runs, unless the text decides whether the request goes on.
     */
    private void emit(StepResult result, long now) {
        for (StepResult.Sampled sampled : result.sampled()) {
            Sequence sequence = byKey.get(sampled.sequence());
            if (sequence == null) {
                continue; // cancelled or ended while its row was under way
            }
            sequence.append(sampled.choice().token(), now);
            if (sampled.fromHost()) {
                sequence.tiers().countHostToken();
            }
            boolean end = isEndToken(sequence, sampled.choice().token());
            boolean watched = !sequence.request().sampling().stop().isEmpty();
            if (!watched && (end || sequence.known() >= sequence.limit())) {
                release(sequence, end ? FinishReason.STOP : FinishReason.LENGTH, now);
            }
            output.add(sequence, sampled.choice(), end, sampled.fromHost(), now);
            if (watched) {
                output.process();
            }
        }
    }

    private boolean isEndToken(Sequence sequence, int token) {
        var sampling = sequence.request().sampling();
        return !sampling.ignoreEos() && config.endTokens().contains(token)
                || sampling.stopTokenIds().contains(token);
    }

    /** The request takes part no longer; its blocks are free. */
    private void release(Sequence sequence, FinishReason reason, long now) {
        if (sequence.timings().scheduledAt(now)) {
            accepted--;
            left(sequence.request());
        }
        leave(sequence, reason);
        sequence.dropPlaceholders();
        byKey.remove(sequence.key());
    }

    private void leave(Sequence sequence, FinishReason reason) {
        if (sequence.state() instanceof RequestState.Finished) {
            return;
        }
        sequence.state(new RequestState.Finished(reason));
        if (abandoned) {
            return;
        }
        if (exposed) {
            leaving.add(sequence);
        } else {
            committer.remove(sequence);
        }
    }

    private void finish(Sequence sequence, FinishReason reason, String text, String stopReason, long now) {
        if (!end(sequence, reason)) {
            return;
        }
        var usage = Usage.of(sequence, now);
        // counted before the client is told: who was told may look at the counters
        listener.finished(sequence.request(), reason, usage);
        deliverEnd(sequence.request(), new TokenEvent.Finished(reason, text, stopReason, usage));
    }

    /** The request ends with an error; the others go on. */
    private void fail(Sequence sequence, String message) {
        if (end(sequence, FinishReason.ABORT)) {
            listener.failed(sequence.request());
            deliverEnd(sequence.request(), new TokenEvent.Failed(message));
        }
    }

    /** Forgets the request. False when it has ended before: each request hears of one end. */
    private boolean end(Sequence sequence, FinishReason reason) {
        if (!byRequest.remove(sequence.request().id(), sequence)) {
            return false;
        }
        if (byKey.containsKey(sequence.key())) {
            release(sequence, reason, clock.nanos());
        }
        output.forget(sequence);
        return true;
    }

    /**
     * Ends every request, those still in the admission queue included: the executor is gone. Whatever one client's
     * callbacks do, the next client is told.
     */
    void failAll(String message) {
        abandoned = true;
        output.process();
        for (EngineCommand command = arrivals.poll(); command != null; command = arrivals.poll()) {
            if (command instanceof EngineCommand.Submit submit) {
                refuse(submit.request(), message);
            }
        }
        List.copyOf(byRequest.values()).forEach(sequence -> fail(sequence, message));
        leaving.clear();
        underWay.clear();
        committer.abandon();
        stats = snapshot();
    }

    private static StepRecord record(
            StepPlan plan, StepResult result, long started, long planNanos, long executeNanos) {
        int prefill = 0;
        int decode = 0;
        int host = 0;
        int chunkSamples = 0;
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                chunkSamples += chunk.sampler().isPresent() ? 1 : 0;
                if (chunk.decodes()) {
                    decode++;
                    host += chunk.site() == AttentionSite.CPU_FROM_HOST ? 1 : 0;
                } else {
                    prefill += chunk.rows();
                }
            }
        }
        int returned = result.sampled().size() - chunkSamples;
        return new StepRecord(
                plan.step(),
                started,
                prefill,
                decode + returned,
                host + returned,
                plan.swaps().size(),
                planNanos,
                executeNanos);
    }

    private EngineStats snapshot() {
        var gpu = state.kv().pool(KvTier.GPU);
        var host = state.kv().pool(KvTier.HOST);
        int dropped = state.waiting().size() - accepted;
        return new EngineStats(
                arrivals.waiting(),
                dropped,
                state.scheduled(),
                Math.max(
                        0,
                        state.gpu().size()
                                + state.host().size()
                                + state.inFlight().size()
                                - state.scheduled()),
                gpu.size(),
                gpu.used(),
                host.size(),
                host.used(),
                state.preemptions(),
                stats == null ? 0 : stats.steps() + 1,
                state.inFlight().size(),
                hostLost);
    }
}
