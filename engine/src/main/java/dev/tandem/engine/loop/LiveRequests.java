package dev.tandem.engine.loop;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.kv.BlockPool;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.output.OutputProcessor;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.queue.EngineCommand;
import dev.tandem.engine.queue.WaitingQueue;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.sampling.Choice;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.schedule.PlanCommitter;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.SubBatch;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;

/**
 * Requests from their acceptance to their last event. Each client receives exactly one last event, whatever the
 * callbacks of other clients do.
 *
 * <p>Owned by: engine thread.
 */
final class LiveRequests implements OutputProcessor.RequestEnds {
    private static final Logger LOG = System.getLogger(LiveRequests.class.getName());

    private final EngineConfig config;
    private final AdmissionQueue arrivals;
    private final Clock clock;
    private final EngineListener listener;
    private final PlanCommitter committer;
    private final StepPipeline pipeline;
    private final OutputProcessor output;
    private final SplittableRandom seeds;
    private final Map<String, Sequence> byId = new HashMap<>();
    private long nextKey;
    /** Accepted requests that have not been in a step. */
    private int notStarted;

    LiveRequests(
            EngineConfig config,
            AdmissionQueue arrivals,
            Clock clock,
            EngineListener listener,
            PlanCommitter committer,
            StepPipeline pipeline) {
        this.config = config;
        this.arrivals = arrivals;
        this.clock = clock;
        this.listener = listener;
        this.committer = committer;
        this.pipeline = pipeline;
        this.output = new OutputProcessor(listener, this);
        this.seeds = new SplittableRandom(config.seed());
    }

    OutputProcessor output() {
        return output;
    }

    int notStarted() {
        return notStarted;
    }

    void accept(EngineCommand.Submit submit) {
        Request request = submit.request();
        if (byId.containsKey(request.id())) {
            refuse(submit, "request id " + request.id() + " is already in use; choose another id");
            return;
        }
        int room = config.contextTokens() - request.prompt().length;
        int limit = request.prompt().length
                + Math.min(room, request.sampling().maxTokens().orElse(room));
        Sequence sequence;
        try {
            TokenSampler sampler = new TokenSampler(
                    request.sampling(), submit.adjustments(), submit.matcher(), config.endTokens(), seeds.nextLong());
            sequence = new Sequence(nextKey++, request, submit.arrivedNanos(), limit, sampler);
        } catch (RuntimeException | Error e) { // out of memory, for example: only this request fails
            LOG.log(Level.WARNING, "Request " + request.id() + " cannot be accepted.", e);
            refuse(submit, "the request cannot be accepted: " + e);
            return;
        }
        byId.put(request.id(), sequence);
        pipeline.add(sequence);
        committer.enqueue(sequence);
        notStarted++;
    }

    private void refuse(EngineCommand.Submit submit, String message) {
        Request request = submit.request();
        submit.discard();
        leftQueue(request);
        listener.failed(request, message);
        deliverEnd(request, new TokenEvent.Failed(message));
    }

    /** Delivers the last event of a request; a sink that throws on it receives nothing more. */
    private static void deliverEnd(Request request, TokenEvent end) {
        try {
            request.sink().on(end);
        } catch (RuntimeException | Error e) {
            LOG.log(Level.WARNING, "The event sink of request " + request.id() + " failed on its last event.", e);
        }
    }

    void cancel(String id) {
        output.process();
        Sequence sequence = byId.get(id);
        if (sequence != null) {
            finish(sequence, FinishReason.ABORT, "", "", clock.nanos());
        }
    }

    /** Counts the plan's sequences as started. */
    void start(StepPlan plan, long now) {
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                start(pipeline.planned(chunk), now);
            }
        }
    }

    private void start(Sequence sequence, long now) {
        if (sequence.timings().scheduledAt(now)) {
            notStarted--;
            leftQueue(sequence.request());
        }
    }

    /** The engine's own requests do not count as waiting. */
    private void leftQueue(Request request) {
        if (!ShadowVerification.isVerification(request)) {
            arrivals.left();
        }
    }

    /**
     * Appends a sampled token, which the next plan needs, and queues it for its client. The client receives it while
     * the next step runs, unless stop strings decide whether the request goes on. Tokens that a grammar forces after it
     * are appended too, and the next steps compute them like a prompt's.
     */
    void append(Sequence sequence, StepResult.Sampled sampled, long now) {
        append(sequence, sampled.choice(), sampled.fromHost(), now);
        // A sequence on the host decodes one token per step, forced ones too: a chunk would bring its KV to the GPU.
        if (sequence.state() == RequestState.ON_GPU) {
            appendForced(sequence, now);
        }
        if (pipeline.get(sequence.key()) != null) {
            pipeline.prepareBitmask(sequence);
        }
    }

    private void appendForced(Sequence sequence, long now) {
        int[] forced;
        try {
            forced = sequence.sampler().takeForced();
        } catch (RuntimeException e) { // caused by this request's grammar: the other requests go on
            LOG.log(
                    Level.WARNING,
                    "The grammar of request " + sequence.request().id() + " failed.",
                    e);
            fail(sequence, "the request's grammar failed: " + e + "; only this request has ended");
            return;
        }
        if (forced.length > 0) {
            pipeline.skipSample(sequence); // a running step samples the first of them
        }
        for (int i = 0; i < forced.length && sequence.state() == RequestState.ON_GPU; i++) { // until it ends
            append(sequence, new Choice(forced[i], Optional.empty()), false, now);
        }
    }

    private void append(Sequence sequence, Choice choice, boolean fromHost, long now) {
        int token = choice.token();
        sequence.append(token, now);
        if (fromHost) {
            sequence.tiers().countHostToken();
        }
        SamplingParams sampling = sequence.request().sampling();
        boolean end = !sampling.ignoreEos() && config.endTokens().contains(token)
                || sampling.stopTokenIds().contains(token);
        boolean textDecides = !sampling.stop().isEmpty();
        if (!textDecides && (end || sequence.known() >= sequence.limit())) {
            release(sequence, end ? FinishReason.STOP : FinishReason.LENGTH, now);
        }
        output.add(sequence, choice, end, fromHost, now);
        if (textDecides) {
            output.process();
        }
    }

    /** Ends the sequence's part in steps; its client may still have tokens to receive. */
    private void release(Sequence sequence, FinishReason reason, long now) {
        start(sequence, now);
        pipeline.release(sequence, reason);
    }

    @Override
    public void finish(Sequence sequence, FinishReason reason, String text, String stopReason, long now) {
        if (!end(sequence, reason)) {
            return;
        }
        Usage usage = Usage.of(sequence, now);
        listener.finished(sequence.request(), reason, usage); // first: a client that has its end may read the metrics
        deliverEnd(sequence.request(), new TokenEvent.Finished(reason, text, stopReason, usage));
    }

    @Override
    public void fail(Sequence sequence, String message) {
        if (end(sequence, FinishReason.ABORT)) {
            listener.failed(sequence.request(), message);
            deliverEnd(sequence.request(), new TokenEvent.Failed(message));
        }
    }

    /** Forgets the request; false when it has ended before. */
    private boolean end(Sequence sequence, FinishReason reason) {
        if (!byId.remove(sequence.request().id(), sequence)) {
            return false;
        }
        if (pipeline.get(sequence.key()) != null) {
            release(sequence, reason, clock.nanos());
        }
        output.forget(sequence);
        sequence.sampler().close();
        return true;
    }

    @Override
    public boolean hasEnded(Sequence sequence) {
        return byId.get(sequence.request().id()) != sequence;
    }

    /** Fails the first live request: {@code emptyPlans} consecutive plans did not compute it, nor any other. */
    void failUnschedulable(SchedulerState state, int emptyPlans) {
        Sequence first = state.live().stream().min(WaitingQueue.ORDER).orElseThrow();
        BlockPool gpu = state.kv().pool(KvTier.GPU);
        KvLayout layout = state.kv().layout();
        String message = "the request of " + first.length() + " tokens cannot be scheduled: it needs "
                + layout.blocks(state.kv().maxHeld(KvTier.GPU, first.length()))
                + " KV blocks, and of the GPU pool's " + layout.blocks(gpu.size()) + " blocks "
                + gpu.free() / layout.groups() + " are free; send a shorter one, or restart the server";
        LOG.log(Level.ERROR, "{0} consecutive plans were empty; request {1} ends: {2}", emptyPlans, first, message);
        fail(first, message);
    }

    /** Fails every request, those in the admission queue included. */
    void failAll(String message) {
        output.process();
        for (EngineCommand command = arrivals.poll(); command != null; command = arrivals.poll()) {
            if (command instanceof EngineCommand.Submit submit) {
                refuse(submit, message);
            }
        }
        List.copyOf(byId.values()).forEach(sequence -> fail(sequence, message));
    }
}
