package dev.tandem.engine.loop;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.observe.StepEvent;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.PlanCommitter;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.SubBatch;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Submitted steps, and what their sequences may count on before the results are known (async scheduling).
 *
 * <p>After each submit the executor says whether the next step may be planned before this one's result is known. Such a
 * step is asynchronous, any other is synchronous:
 *
 * <table>
 * <caption>Invariants</caption>
 * <tr><th></th><th>synchronous step</th><th>asynchronous step</th></tr>
 * <tr><th>next step is planned</th><td>after its result</td><td>after its submit</td></tr>
 * <tr><th>steps outstanding with it</th><td>none after it</td><td>one after it</td></tr>
 * <tr><th>KV that it moves</th><td>between both tiers</td><td>that of prompts, to the host</td></tr>
 * <tr><th>its tokens count as computed</th><td>from its result on</td><td>from its submit on</td></tr>
 * <tr><th>blocks behind the windows of its tokens</th><td>are free from its result on</td>
 *     <td>are free from its submit on: a later step writes them after this one has run</td></tr>
 * <tr><th>the token it samples</th><td>is appended at its result</td>
 *     <td>is a placeholder from its submit to its result</td></tr>
 * <tr><th>a sequence that reaches its limit</th><td>ends at the result</td>
 *     <td>leaves the scheduler at the submit, its request ends at the result</td></tr>
 * <tr><th>blocks of a sequence that ends while it runs</th>
 *     <td>stay allocated until its result: the pipeline is exposed</td>
 *     <td>are free at once: a later step writes them after this one has run; those of a sequence for which the CPU
 *     attends stay allocated until its result</td></tr>
 * <tr><th>a sequence on the host that reaches its limit</th><td>as any other</td>
 *     <td>the step is synchronous</td></tr>
 * </table>
 *
 * Later sequences may hit the KV of a step once its result is known: a sequence that the step loses must not be hit. A
 * sequence that leaves at the submit is hit from then on, and no more once it is lost.
 *
 * <p>A step may have rows whose draws depend on the result of the step before, by a grammar or a penalty. If that
 * result is not known at the submit, the executor computes the layers only. It samples as soon as the result is
 * applied, and before the next plan is made. A step with grammars always samples behind its layers, because rows whose
 * bitmask is late are left out ({@link StepSampling}). What the table says of the submit then holds of the sampling.
 *
 * <p>In-flight tokens follow neither column: the executor owns their blocks until a result names them.
 *
 * <p>Owned by: engine thread.
 */
final class StepPipeline {
    /**
     * A submitted step.
     *
     * @param async whether the next step is planned before this one's result is known
     * @param started when planning began
     * @param planNanos time that planning took
     * @param event for recordings, begun at the submit
     * @param sampling which rows it samples
     */
    record Step(StepPlan plan, boolean async, long started, long planNanos, StepEvent event, StepSampling sampling) {}

    /**
     * A step with its result.
     *
     * @param tookNanos from its submit, or from the result before if that came later, to its result
     * @param settledNanos when the result came
     */
    record Settled(Step step, StepResult result, long tookNanos, long settledNanos) {}

    /**
     * Bitmasks are waited for until the shorter of the last two steps' times divided by this has passed since the step
     * began: its layers still run then, and the time left is for the next plan and its launch. The shorter one, because
     * a step of prompts says nothing of the decodes after it. Not tuned.
     */
    private static final int WAIT_DIVISOR = 2;

    private final Executor executor;
    private final Clock clock;
    private final SchedulerState state;
    private final PlanCommitter committer;
    /** Sequences whose end is not settled, by key. */
    private final Map<Long, Sequence> live = new HashMap<>();
    /** Submitted, oldest first. */
    private final ArrayDeque<Step> submitted = new ArrayDeque<>();
    /** Sequences that have ended and whose blocks a submitted step may use. Nothing is planned ahead of their end. */
    private final List<Sequence> leaving = new ArrayList<>();
    /** True while a synchronous step runs. */
    private boolean exposed;
    /** True while the last submitted step waits for the result of the step before, to sample. */
    private boolean unsampled;

    private long lastSettled = Long.MIN_VALUE;
    /**
     * From the submit of the last settled step, or the result before it, to its result, without its wait for bitmasks.
     */
    private long lastTook;
    /** The same of the step before. */
    private long tookBefore;
    /** True once the executor is gone: no block is freed any more. */
    private boolean abandoned;

    StepPipeline(Executor executor, Clock clock, SchedulerState state, PlanCommitter committer) {
        this.executor = executor;
        this.clock = clock;
        this.state = state;
        this.committer = committer;
    }

    /** Adds a sequence that may take part in steps. */
    void add(Sequence sequence) {
        live.put(sequence.key(), sequence);
    }

    /** The sequence, or null when its end is settled. */
    @Nullable
    Sequence get(long key) {
        return live.get(key);
    }

    /** The sequence of a chunk that was just planned, which is live. */
    Sequence planned(Chunk chunk) {
        return Objects.requireNonNull(
                live.get(chunk.sequence()), () -> "the plan computes the ended sequence " + chunk.sequence());
    }

    boolean isEmpty() {
        return submitted.isEmpty();
    }

    /** True when another step may be planned now. */
    boolean acceptsPlan() {
        return submitted.isEmpty() || submitted.getLast().async() && leaving.isEmpty();
    }

    /** Submits a plan whose planning began at {@code started}. */
    void submit(StepPlan plan, long started) {
        long planned = clock.nanos();
        StepEvent event = new StepEvent();
        boolean follows = !submitted.isEmpty();
        StepSampling sampling = StepSampling.of(plan, follows, executor.drawsByBitmask());
        unsampled = sampling.isBehindLayers();
        if (unsampled) {
            executor.submitLayers(plan);
        } else {
            executor.submit(plan);
        }
        boolean async = executor.allowsAsyncScheduling() && !endsOnHost(plan);
        exposed = !async;
        Step step = new Step(plan, async, started, planned - started, event, sampling);
        submitted.add(step);
        if (!unsampled) {
            countAhead(step);
        } else if (!follows) {
            sample();
        }
    }

    /**
     * Whether a sequence whose attention the CPU computes reaches its limit in a step. It would leave at the submit and
     * could be hit, and its KV is wrong if a worker then fails.
     */
    private boolean endsOnHost(StepPlan plan) {
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                Sequence sequence = live.get(chunk.sequence());
                if (chunk.site() == AttentionSite.CPU_FROM_HOST
                        && sequence != null
                        && sequence.length() + 1 >= sequence.limit()) {
                    return true;
                }
            }
        }
        return false;
    }

    /** Lets a thread compute the bitmask after the token that a sequence has just received. */
    void prepareBitmask(Sequence sequence) {
        boolean onGpu = sequence.state() == RequestState.ON_GPU;
        sequence.sampler().prepare(onGpu && executor.drawsByBitmask());
    }

    /**
     * Has the step that runs sample, if it waits for the result that has just been applied.
     *
     * <p>In the result of that step, sequences that have ended have no token, nor have those of {@link #skipSample},
     * nor those whose bitmask is late.
     */
    void sample() {
        if (!unsampled) {
            return;
        }
        Step step = submitted.getLast();
        long began = Math.max(step.started() + step.planNanos(), lastSettled);
        // an executor that computes in the submit has computed the layers by now
        long wait = executor.computesInSubmit() ? 0 : Math.min(lastTook, tookBefore) / WAIT_DIVISOR;
        step.sampling().leaveOutLate(step.plan(), live, clock, began + wait);
        executor.sample(step.sampling().notSampled());
        unsampled = false;
        countAhead(step);
    }

    /** The sequence's next token is known, so a step that runs and has not sampled need not. */
    void skipSample(Sequence sequence) {
        if (unsampled) {
            submitted.getLast().sampling().skip(sequence.key());
        }
    }

    /** True when the next thing to do is to plan: one step runs, and the next is planned before its result. */
    boolean plansAhead() {
        return submitted.size() == 1 && submitted.getLast().async() && leaving.isEmpty();
    }

    /** Waits for the oldest step and applies its result, but for its lost sequences and sampled tokens. */
    Settled settle() {
        Step step = submitted.getFirst();
        StepResult result = executor.poll();
        long now = clock.nanos();
        long took = now - Math.max(step.started() + step.planNanos(), lastSettled);
        lastSettled = now;
        tookBefore = lastTook;
        lastTook = took - step.sampling().record().waitNanos();
        submitted.removeFirst();
        if (!step.async()) {
            exposed = false;
            countComputed(step);
        }
        returnInFlight(step.plan(), result);
        return new Settled(step, result, took, now);
    }

    /** Lets the next plan count on an asynchronous step, which has sampled or is about to. */
    private void countAhead(Step step) {
        if (step.async()) {
            countComputed(step);
            slide(step.plan());
            addPlaceholders(step);
        }
    }

    private void countComputed(Step step) {
        for (SubBatch batch : step.plan().subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                Sequence sequence = live.get(chunk.sequence());
                if (sequence != null) { // else the step before has ended it
                    sequence.advance(step.sampling().computed(chunk));
                }
            }
        }
    }

    /** Frees what lies behind the windows of a plan's sequences. */
    private void slide(StepPlan plan) {
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                slide(chunk.sequence());
            }
        }
    }

    private void slide(long key) {
        Sequence sequence = live.get(key);
        if (sequence != null && !(sequence.state() instanceof RequestState.Finished)) {
            committer.slide(sequence);
        }
    }

    /**
     * Lets later sequences hit the KV that a step has computed or moved, but for sequences that it has lost, and then
     * frees what lies behind their windows.
     */
    void register(Step step, StepResult result) {
        StepPlan plan = step.plan();
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                register(chunk.sequence(), chunk.start() + step.sampling().computed(chunk));
            }
        }
        // steps that swap or return in-flight tokens have no step after them yet, so all is computed
        plan.swaps().forEach(swap -> registerComputed(swap.sequence()));
        if (!plan.admissions().isEmpty()
                || plan.slotsPerLayer() > 0
                || !plan.resume().isEmpty()) {
            result.sampled().stream().filter(StepResult.Sampled::fromHost).forEach(s -> registerComputed(s.sequence()));
        }
        slide(plan);
        result.sampled().stream().filter(StepResult.Sampled::fromHost).forEach(s -> slide(s.sequence()));
    }

    private void registerComputed(long key) {
        Sequence sequence = live.get(key);
        if (sequence != null) {
            register(key, sequence.computed());
        }
    }

    private void register(long key, int tokens) {
        Sequence sequence = live.get(key);
        if (sequence != null && !(sequence.state() instanceof RequestState.Finished)) {
            committer.register(sequence, tokens);
        }
    }

    private void addPlaceholders(Step step) {
        for (SubBatch batch : step.plan().subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                Sequence sequence = live.get(chunk.sequence());
                if (sequence == null || !step.sampling().samples(chunk)) {
                    continue;
                }
                sequence.addPlaceholder();
                if (sequence.length() >= sequence.limit()) {
                    committer.register(sequence, chunk.start() + chunk.rows());
                    leave(sequence, FinishReason.LENGTH);
                }
            }
        }
    }

    /** Takes back in-flight tokens that were sampled or paused. */
    private void returnInFlight(StepPlan plan, StepResult result) {
        for (long key : result.paused()) {
            committer.endInFlight(key);
        }
        for (StepResult.Sampled sampled : result.sampled()) {
            if (wasInFlight(plan, sampled.sequence())) {
                Sequence sequence = committer.endInFlight(sampled.sequence());
                if (sequence != null) {
                    sequence.advance(1);
                }
            }
        }
    }

    /**
     * Whether the sequence's token was in flight during the step. A token may be in flight only since the next step,
     * planned before this one's result: then this step computed the sequence as a chunk and samples a placeholder.
     */
    private boolean wasInFlight(StepPlan plan, long key) {
        if (!state.isInFlight(key)) {
            return false;
        }
        Sequence sequence = live.get(key);
        if (sequence != null) {
            return sequence.known() == sequence.length();
        }
        // the sequence has ended and has no placeholders: the plan says whether it was a chunk
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
     * Whether a lost sequence's token is in flight. A worker may be lost before the result of the step whose prompt the
     * sequence is, while the next step has its token in flight: the executor gives that token up, and no later result
     * names it. A step in which the CPU attends for the sequence itself is not followed by one that admits it.
     */
    private boolean losesInFlight(StepPlan plan, StepResult.Lost lost) {
        return switch (lost.cause()) {
            case SAMPLING -> wasInFlight(plan, lost.sequence());
            case HOST_ATTENTION -> state.isInFlight(lost.sequence()) && !attendsOnHost(plan, lost.sequence());
        };
    }

    /**
     * Takes back the blocks of a sequence that the step has lost.
     *
     * @return the sequence, whose request is to be failed; empty when it has ended before
     */
    Optional<Sequence> lose(StepPlan plan, StepResult.Lost lost) {
        Sequence sequence = live.get(lost.sequence());
        if (sequence != null && lost.cause() == StepResult.Cause.SAMPLING) {
            committer.purge(sequence);
        }
        if (losesInFlight(plan, lost)) {
            committer.lose(lost.sequence(), lost.stillInUse());
            if (sequence != null) {
                sequence.state(new RequestState.Finished(FinishReason.ABORT)); // it has no blocks left to free
            }
        } else if (lost.stillInUse()) {
            holder(lost.sequence()).ifPresent(committer::quarantine);
        }
        return Optional.ofNullable(sequence);
    }

    /** The sequence that holds the blocks: a live one, or one that is leaving. */
    private Optional<Sequence> holder(long key) {
        Sequence sequence = live.get(key);
        return sequence != null
                ? Optional.of(sequence)
                : leaving.stream().filter(candidate -> candidate.key() == key).findFirst();
    }

    /** Ends a sequence's part in steps; later tokens that submitted steps sample for it are discarded. */
    void release(Sequence sequence, FinishReason reason) {
        leave(sequence, reason);
        skipSample(sequence);
        sequence.dropPlaceholders();
        live.remove(sequence.key());
    }

    private void leave(Sequence sequence, FinishReason reason) {
        if (sequence.state() instanceof RequestState.Finished) {
            return;
        }
        sequence.state(new RequestState.Finished(reason));
        if (abandoned) {
            return;
        }
        if (mayUse(sequence)) {
            leaving.add(sequence);
        } else {
            committer.remove(sequence);
        }
    }

    /**
     * Whether blocks of the sequence must stay allocated: a synchronous step runs, or the CPU attends for the sequence.
     * A worker that stalls is given up, and may write later.
     */
    private boolean mayUse(Sequence sequence) {
        return exposed || submitted.stream().anyMatch(step -> attendsOnHost(step.plan(), sequence.key()));
    }

    private static boolean attendsOnHost(StepPlan plan, long key) {
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                if (chunk.sequence() == key && chunk.site() == AttentionSite.CPU_FROM_HOST) {
                    return true;
                }
            }
        }
        return false;
    }

    /** Frees the blocks of sequences that have ended, unless a step may still use them. */
    void freeLeaving() {
        leaving.removeIf(sequence -> {
            boolean frees = !mayUse(sequence);
            if (frees) {
                committer.remove(sequence);
            }
            return frees;
        });
    }

    /** The executor is gone: from now on no block is freed one by one. */
    void abandon() {
        abandoned = true;
    }

    /** Forgets all steps and frees all blocks, after {@link #abandon} and the end of every request. */
    void clear() {
        leaving.clear();
        submitted.clear();
        committer.abandon();
    }
}
