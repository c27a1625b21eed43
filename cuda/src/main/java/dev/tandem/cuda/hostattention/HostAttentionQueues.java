package dev.tandem.cuda.hostattention;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.model.config.ModelConfig;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * The host tokens and the lock-free rings through which GPU and workers exchange their attention tasks and results.
 *
 * <pre>
 *  ring or word     writer                                reader
 *  tasks            transfer kernel, of in-flight tokens  workers
 *  ready            workers: a result is written          transfer kernel
 *  sameLayerTasks   the step, of same-layer tokens        workers, before {@code tasks}
 *  completed        workers: a result is written          the step, which waits for it
 * </pre>
 *
 * <p>Each ring entry carries its own number, so no reader needs the ring's tail. Writers release and readers acquire an
 * entry. A host token has at most one entry in all rings together, so a ring of {@link #MAX} entries cannot overflow.
 * Workers never block on a ring: they take what it holds.
 *
 * <p>Owned by: engine thread, except {@link #take}, {@link #takeSameLayer}, {@link #peek}, {@link #peekSameLayer},
 * {@link #publish}, {@link #complete}, {@link #released} and {@link #failed}, which workers call.
 */
public final class HostAttentionQueues {
    /** Max host tokens at a time. */
    public static final int MAX = KernelConstants.MAX_HOST_TOKENS;

    private static final VarHandle LONG = JAVA_LONG.varHandle();
    private static final long NO_ENTRY = -1;
    /** Max subtasks of a task: about two per worker, so that workers that share a host token finish together. */
    private static final int MAX_SUBTASKS = 32;
    /**
     * Max takes of a task while another task waits behind it: each take has a start-up cost, and the waiting task keeps
     * all workers busy.
     */
    private static final int MAX_TAKES = 16;
    /**
     * Room for logit adjustments of an in-flight token on the GPU: none, the engine adjusts its logits after the last
     * layer.
     */
    private static final int NO_ADJUSTMENTS = -1;
    /** Offset in {@link Memory#completed} of the abort word, {@code aborted} of prelude.cu, in bytes. */
    private static final long ABORTED_AT = (long) MAX * Long.BYTES;

    /** A host token whose attention threw. */
    public record Failure(HostToken hostToken, Throwable cause) {}

    /**
     * Memory that GPU and workers share. All rings and {@code completed} start as zeros.
     *
     * @param tasks [{@link #MAX}] (number + 1) &lt;&lt; 24 | layer &lt;&lt; 16 | host token index
     * @param ready likewise
     * @param sent [{@link #MAX}, heads + 2 kvHeads, headDim] q, k and v in the model's type
     * @param results [{@link #MAX}, heads, headDim] in the model's type
     * @param sameLayerTasks like {@code tasks}, for same-layer tokens
     * @param completed [{@link #MAX}] number + 1 of each same-layer token's last finished task; then the abort word
     */
    public record Memory(
            MemorySegment tasks,
            MemorySegment ready,
            MemorySegment sent,
            MemorySegment results,
            MemorySegment sameLayerTasks,
            MemorySegment completed) {}

    private final Memory memory;
    private final int subtasks;
    private final int subtasksPerTake;
    private final int keyOffset;
    private final int valueOffset;
    private final int sentBytes;
    private final int resultBytes;
    private final AtomicLong taken = new AtomicLong();
    private final AtomicLong published = new AtomicLong();
    /** Subtasks of same-layer tasks that workers have taken; each task has {@code subtasks} of them. */
    private final AtomicLong takenSubtasks = new AtomicLong();

    private final AtomicIntegerArray subtasksDone = new AtomicIntegerArray(MAX);
    private final AtomicLong spanNanos = new AtomicLong();
    /** Of the sub-batch whose same-layer tokens are being registered. */
    private SubBatchSpan span = new SubBatchSpan(spanNanos);

    private final AtomicReferenceArray<HostToken> hostTokens = new AtomicReferenceArray<>(MAX);
    private final ArrayDeque<Integer> free = new ArrayDeque<>();
    /** Tokens in flight. */
    private final Map<Long, HostToken> bySequence = new LinkedHashMap<>();
    /** Same-layer tokens of all outstanding steps; two steps may have tokens of one sequence. */
    private final Set<HostToken> sameLayer = new LinkedHashSet<>();
    /** Tasks that workers have taken from the ring in search of those of resumed tokens; no one attends to them yet. */
    private final Queue<Long> setAside = new ConcurrentLinkedQueue<>();

    private final Queue<HostToken> released = new ConcurrentLinkedQueue<>();
    private final Queue<Failure> failures = new ConcurrentLinkedQueue<>();
    private long consumed;
    private long pushed;
    private long reserved;
    private int drawn;
    private int reported;
    /** Host tokens whose next token the engine samples from the logits. */
    private int hostSampled;

    private volatile boolean hasTokens;
    /** Resumed tokens that have not ended; the engine thread alone writes it. */
    private volatile int resumedTokens;

    /** @param bytes per value of the model's type */
    public HostAttentionQueues(ModelConfig config, int bytes, Memory memory) {
        this.memory = memory;
        this.subtasks = subtasks(config);
        this.subtasksPerTake = subtasksPerTake(config);
        int headBytes = config.headDim() * bytes;
        this.resultBytes = config.heads() * headBytes;
        this.keyOffset = resultBytes;
        this.valueOffset = keyOffset + config.kvHeads() * headBytes;
        this.sentBytes = valueOffset + config.kvHeads() * headBytes;
        for (int index = 0; index < MAX; index++) {
            free.add(index);
        }
    }

    /** Subtasks of a same-layer task: each covers an equal part of the KV heads, and any worker may take it. */
    public static int subtasks(ModelConfig config) {
        return Math.min(MAX_SUBTASKS, Integer.lowestOneBit(config.kvHeads()));
    }

    /** Subtasks that a worker takes at a time while another task waits behind them. */
    public static int subtasksPerTake(ModelConfig config) {
        return Math.max(1, subtasks(config) / MAX_TAKES);
    }

    public static int sentBytes(ModelConfig config, int bytes) {
        return (config.heads() + 2 * config.kvHeads()) * config.headDim() * bytes;
    }

    public static int resultBytes(ModelConfig config, int bytes) {
        return config.heads() * config.headDim() * bytes;
    }

    /** Registers an in-flight token that enters layer 0 in the next step. */
    public HostToken admit(Admission admission) {
        HostToken hostToken = enter(admission, admission.sampler().draw(NO_ADJUSTMENTS), Optional.empty());
        bySequence.put(hostToken.sequence(), hostToken);
        count(hostToken, 1);
        return hostToken;
    }

    private void count(HostToken hostToken, int sign) {
        drawn += hostToken.draw.filter(draw -> !draw.greedy()).isPresent() ? sign : 0;
        reported += hostToken.draw.filter(draw -> draw.logprobs() >= 0).isPresent() ? sign : 0;
        hostSampled += hostToken.draw.isEmpty() ? sign : 0;
    }

    /** Begins a sub-batch: the same-layer tokens that are registered from now on are waited for together. */
    public void beginSubBatch() {
        span = new SubBatchSpan(spanNanos);
    }

    /** Registers a same-layer token of the next step; the step samples it like its other rows. */
    public HostToken admitSameLayer(Admission admission) {
        HostToken hostToken = enter(admission, Optional.empty(), Optional.of(span));
        sameLayer.add(hostToken);
        span.add();
        return hostToken;
    }

    /** Whether an outstanding step has same-layer tokens. */
    public boolean hasSameLayer() {
        return !sameLayer.isEmpty();
    }

    /** Whether so many host tokens may enter. */
    public boolean hasRoom(int tokens) {
        return tokens <= free.size();
    }

    /** Nanoseconds from the first start to the last end of each sub-batch's attention in each layer, summed. */
    long spanNanos() {
        return spanNanos.get();
    }

    private HostToken enter(Admission admission, Optional<TokenSampler.Draw> draw, Optional<SubBatchSpan> subBatch) {
        Integer index = free.poll();
        if (index == null) {
            throw new ExecutorException("more than " + MAX + " host tokens at a time: the CPU attends for no more");
        }
        HostToken hostToken = new HostToken(index, admission, draw, subBatch);
        hostTokens.setRelease(index, hostToken);
        hasTokens = true;
        return hostToken;
    }

    /** Reserves numbers for the tasks of the next step; returns the first. */
    public long reserveTasks(long tasks) {
        long first = reserved;
        reserved += tasks;
        return first;
    }

    /** Makes steps stop waiting: no results will come. */
    void abort() {
        LONG.setRelease(memory.completed(), ABORTED_AT, (long) KernelConstants.ABORTED);
    }

    /**
     * Whether steps have stopped waiting. The host, a step that waited for too long, or a transfer kernel decides so.
     */
    public boolean isAborted() {
        return (long) LONG.getAcquire(memory.completed(), ABORTED_AT) != 0;
    }

    /** Whether a transfer kernel aborted, because its step did not end. */
    boolean isAbortedByTransfer() {
        return (long) LONG.getAcquire(memory.completed(), ABORTED_AT) == KernelConstants.ABORTED_BY_TRANSFER;
    }

    /** Those in flight, and same-layer tokens. */
    List<HostToken> all() {
        List<HostToken> all = new ArrayList<>(bySequence.values());
        all.addAll(sameLayer);
        return all;
    }

    Collection<HostToken> inFlight() {
        return bySequence.values();
    }

    HostToken hostToken(int index) {
        return hostTokens.get(index);
    }

    /** Whether workers should look for tasks. */
    boolean hasTokens() {
        return hasTokens;
    }

    /** Whether the GPU draws some host token's next token at random. */
    public boolean draws() {
        return drawn > 0;
    }

    /** Whether some host token's request wants log-probabilities. */
    public boolean reportsLogprobs() {
        return reported > 0;
    }

    /** Whether the engine needs the logits of some host token after the last layer. */
    public boolean needsLogits() {
        return hostSampled > 0;
    }

    /** Pauses an in-flight token: the worker that takes its next task releases it instead. */
    public void pause(long sequence) {
        HostToken hostToken = bySequence.get(sequence);
        if (hostToken != null) {
            hostToken.pause();
        }
    }

    /**
     * Has the next step take an in-flight token through all remaining layers.
     *
     * @return the token; empty when it is paused, has failed or has passed all layers already, and then no step may
     *     wait for it
     */
    Optional<HostToken> resume(long sequence) {
        HostToken hostToken = bySequence.get(sequence);
        if (hostToken == null || !hostToken.resume()) {
            return Optional.empty();
        }
        countResumed(1);
        return Optional.of(hostToken);
    }

    /** Ends a host token that has passed all layers, was released or is lost; its index is free again. */
    public void end(HostToken hostToken) {
        if (!sameLayer.remove(hostToken)) {
            bySequence.remove(hostToken.sequence());
            count(hostToken, -1);
        }
        hostTokens.set(hostToken.index, null);
        free.add(hostToken.index);
        if (hostToken.isResumed()) {
            countResumed(-1);
        }
        hasTokens = !bySequence.isEmpty() || !sameLayer.isEmpty();
    }

    @SuppressWarnings("NonAtomicVolatileUpdate") // one thread writes it
    private void countResumed(int sign) {
        resumedTokens += sign;
    }

    HostToken pollReleased() {
        return released.poll();
    }

    public Failure pollFailure() {
        return failures.poll();
    }

    // called by workers

    /**
     * The task of an in-flight token whose result is needed next, or -1 when there is none now; {@link #layer} and
     * {@link #tokenIndex} read it.
     *
     * <p>The ring has tasks in the order of steps, and of layers within a step. The result of a task is needed when the
     * next step reaches its layer, so that order is also the one in which results are needed. Resumed tokens are the
     * exception: the step that pushes their tasks waits for them. They come first, the lowest layer before the others.
     */
    long take() {
        if (resumedTokens == 0 && setAside.isEmpty()) {
            return takePushed();
        }
        for (long task = takePushed(); task >= 0; task = takePushed()) {
            setAside.add(task);
        }
        Long next = null;
        for (Long task : setAside) {
            if (next == null || deadline(task) < deadline(next)) {
                next = task;
            }
        }
        return next != null && setAside.remove(next) ? next : NO_ENTRY;
    }

    /** The layer at which a step waits for the task's result; the largest number where no step waits for it. */
    private int deadline(long task) {
        HostToken hostToken = hostToken(tokenIndex(task));
        return hostToken != null && hostToken.isResumed() ? layer(task) : Integer.MAX_VALUE;
    }

    private long takePushed() {
        long number = taken.get();
        long entry = (long) LONG.getAcquire(memory.tasks(), (number & MAX - 1) * Long.BYTES);
        return entry >>> 24 == number + 1 && taken.compareAndSet(number, number + 1) ? entry & 0xffffff : NO_ENTRY;
    }

    /** The task that is so many places behind the next one; -1 when there is none yet. */
    long peek(int places) {
        long number = taken.get() + places;
        long entry = (long) LONG.getOpaque(memory.tasks(), (number & MAX - 1) * Long.BYTES);
        return entry >>> 24 == number + 1 ? entry & 0xffffff : NO_ENTRY;
    }

    /**
     * Takes the next subtasks of a same-layer task. Returns the task's number + 1 in the upper 40 bits with layer and
     * index as in {@link #take}, or -1 when there is none now.
     *
     * @param taken receives which subtasks these are
     */
    long takeSameLayer(Subtasks taken) {
        long ticket = takenSubtasks.get();
        long number = ticket / subtasks;
        long entry = (long) LONG.getAcquire(memory.sameLayerTasks(), (number & MAX - 1) * Long.BYTES);
        if (entry >>> 24 != number + 1) {
            return NO_ENTRY;
        }
        int first = (int) (ticket % subtasks);
        int count = first % subtasksPerTake == 0 && hasSameLayerTask(number + 1) ? subtasksPerTake : 1;
        if (!takenSubtasks.compareAndSet(ticket, ticket + count)) {
            return NO_ENTRY;
        }
        taken.first = first;
        taken.count = count;
        return entry;
    }

    private boolean hasSameLayerTask(long number) {
        return (long) LONG.getOpaque(memory.sameLayerTasks(), (number & MAX - 1) * Long.BYTES) >>> 24 == number + 1;
    }

    /** The subtasks that one worker has taken. Owned by: that worker. */
    static final class Subtasks {
        int first;
        int count;
    }

    /**
     * The subtask that is so many places behind the next one: the task as in {@link #peek}, and the subtask's number
     * above it ({@link #subtask}); -1 when there is none yet.
     */
    long peekSameLayer(int places) {
        long ticket = takenSubtasks.get() + places;
        long number = ticket / subtasks;
        long entry = (long) LONG.getOpaque(memory.sameLayerTasks(), (number & MAX - 1) * Long.BYTES);
        return entry >>> 24 == number + 1 ? ticket % subtasks << 24 | entry & 0xffffff : NO_ENTRY;
    }

    /**
     * Counts subtasks as finished, or as failed; the last one marks the task as completed.
     *
     * @param nanos when they were, by the workers' clock
     */
    void complete(long task, int count, long nanos) {
        int index = tokenIndex(task);
        if (subtasksDone.addAndGet(index, count) == subtasks) {
            subtasksDone.set(index, 0);
            HostToken hostToken = hostTokens.get(index);
            if (hostToken != null) { // otherwise lost after the GPU pushed the task
                hostToken.ended(nanos);
            }
            LONG.setRelease(memory.completed(), (long) index * Long.BYTES, task >>> 24);
        }
    }

    /** Number of the subtask that {@link #peekSameLayer} found. */
    static int subtask(long found) {
        return (int) (found >>> 24);
    }

    public static int layer(long task) {
        return (int) (task >>> 16 & 0xff);
    }

    public static int tokenIndex(long task) {
        return (int) (task & 0xffff);
    }

    /** Address of the token's query heads; its key and value heads follow. */
    public long query(int index) {
        return memory.sent().address() + (long) index * sentBytes;
    }

    long key(int index) {
        return query(index) + keyOffset;
    }

    long value(int index) {
        return query(index) + valueOffset;
    }

    /** Address of [heads, headDim] in the model's type. */
    long result(int index) {
        return memory.results().address() + (long) index * resultBytes;
    }

    /** Announces that the token's attention of the layer is written. */
    void publish(int layer, int index) {
        long number = published.getAndIncrement();
        LONG.setRelease(memory.ready(), (number & MAX - 1) * Long.BYTES, number + 1 << 24 | (long) layer << 16 | index);
    }

    /** Announces that the worker has released a paused token. */
    void released(HostToken hostToken) {
        released.add(hostToken);
    }

    void failed(HostToken hostToken, Throwable cause) {
        failures.add(new Failure(hostToken, cause));
    }

    // called by profilers and tests in place of the GPU

    /** Pushes the task of an in-flight token, as the transfer kernel does. */
    public void push(int layer, int index) {
        long number = pushed++;
        LONG.setRelease(memory.tasks(), (number & MAX - 1) * Long.BYTES, number + 1 << 24 | (long) layer << 16 | index);
    }

    /** Pushes the task of a same-layer token, as a step does. */
    public void pushSameLayer(long number, int layer, int index) {
        LONG.setRelease(
                memory.sameLayerTasks(),
                (number & MAX - 1) * Long.BYTES,
                number + 1 << 24 | (long) layer << 16 | index);
    }

    /** Number + 1 of the same-layer token's last finished task. */
    public long completed(int index) {
        return (long) LONG.getAcquire(memory.completed(), (long) index * Long.BYTES);
    }

    /** The next task with a result; -1 when there is none yet. */
    public long nextResult() {
        long entry = (long) LONG.getAcquire(memory.ready(), (consumed & MAX - 1) * Long.BYTES);
        if (entry >>> 24 != consumed + 1) {
            return NO_ENTRY;
        }
        consumed++;
        return entry & 0xffffff;
    }

    /** Restores the rings of in-flight tokens to their start, after a profiler; there are no host tokens then. */
    public void reset() {
        memory.tasks().fill((byte) 0);
        memory.ready().fill((byte) 0);
        taken.set(0);
        published.set(0);
        pushed = 0;
        consumed = 0;
    }
}
