package dev.tandem.cuda.hostattention;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.model.config.ModelConfig;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * Rows whose attention is the host's: which there are, the ring of tasks that the GPU's transfer kernel fills and
 * workers empty, and the ring of results that goes the other way. Rows that pass all layers within one step, which
 * waits for them, have a ring of tasks of their own, which goes first, and an answer each.
 *
 * <p>Each ring entry carries its own number, so there is no separate tail to read, and nobody waits: workers take what
 * is there. A flight has at most one entry in all rings together, so rings of as many entries as there may be flights
 * cannot overflow.
 *
 * <p>Owned by: engine thread, but for {@link #take}, {@link #takeAsked}, {@link #peek}, {@link #publish},
 * {@link #answer}, {@link #released} and {@link #failed}, which workers call.
 */
public final class HostAttentionQueues {
    /** Most in-flight tokens; prelude.cu keeps their numbers in 16 bits. */
    public static final int MAX = 1024;

    private static final VarHandle LONG = JAVA_LONG.varHandle();
    private static final long NO_ENTRY = -1;
    /** Some two for each worker: those who share a row end at about the same time. */
    private static final int MAX_PARTS = 32;
    /** Of a row that another waits behind: a part's beginning costs, and the other keeps all workers busy. */
    private static final int LARGE_PARTS = 16;
    /** The GPU keeps none of a in-flight token: the engine adjusts its logits when it lands. */
    private static final int NO_ADJUSTMENTS = -1;
    /** Where {@link Memory#answered} says so, in bytes. */
    private static final long GIVEN_UP = (long) MAX * Long.BYTES;
    /** What it is then, when a transfer kernel says so; prelude.cu. */
    private static final long TRANSFER = 2;

    /** A row whose attention threw. */
    public record Failure(HostToken hostToken, Throwable cause) {}

    /**
     * @param tasks [{@link #MAX}] (number + 1) &lt;&lt; 24 | layer &lt;&lt; 16 | flight; zeros at first, like
     *     {@code ready}
     * @param ready likewise
     * @param sent [{@link #MAX}, heads + 2 kvHeads, headDim] q, k and v in the model's type
     * @param results [{@link #MAX}, heads, headDim] in the model's type
     * @param asked like {@code tasks}, for rows that a step waits for
     * @param answered [{@link #MAX}] number + 1 of the last task of each such row that is done; then whether the host
     *     gave up
     */
    public record Memory(
            MemorySegment tasks,
            MemorySegment ready,
            MemorySegment sent,
            MemorySegment results,
            MemorySegment asked,
            MemorySegment answered) {}

    private final Memory memory;
    private final int parts;
    private final int together;
    private final int keyOffset;
    private final int valueOffset;
    private final int rowBytes;
    private final int resultBytes;
    private final AtomicLong taken = new AtomicLong();
    private final AtomicLong published = new AtomicLong();
    /** Parts of tasks that a step waits for, of {@code parts} each. */
    private final AtomicLong takenParts = new AtomicLong();

    private final AtomicIntegerArray partsDone = new AtomicIntegerArray(MAX);
    private final AtomicReferenceArray<HostToken> hostTokens = new AtomicReferenceArray<>(MAX);
    private final ArrayDeque<Integer> free = new ArrayDeque<>();
    private final Map<Long, HostToken> bySequence = new LinkedHashMap<>();
    private final Queue<HostToken> released = new ConcurrentLinkedQueue<>();
    private final Queue<Failure> failures = new ConcurrentLinkedQueue<>();
    private long consumed;
    private long pushed;
    private long promised;
    private int drawn;
    private int reported;
    /** Rows whose token the engine chooses, from their logits. */
    private int undrawn;

    private volatile boolean inFlight;

    /** @param bytes of a value of the model's type */
    public HostAttentionQueues(ModelConfig config, int bytes, Memory memory) {
        this.memory = memory;
        this.parts = parts(config);
        this.together = together(config);
        int headBytes = config.headDim() * bytes;
        this.resultBytes = config.heads() * headBytes;
        this.keyOffset = resultBytes;
        this.valueOffset = keyOffset + config.kvHeads() * headBytes;
        this.rowBytes = valueOffset + config.kvHeads() * headBytes;
        for (int index = 0; index < MAX; index++) {
            free.add(index);
        }
    }

    /** A task that a step waits for is shared among so many workers: each takes some of the KV heads. */
    public static int parts(ModelConfig config) {
        return Math.min(MAX_PARTS, Integer.lowestOneBit(config.kvHeads()));
    }

    /** So many parts a worker takes at a time while another row waits behind them. */
    public static int together(ModelConfig config) {
        return Math.max(1, parts(config) / LARGE_PARTS);
    }

    public static int sentBytes(ModelConfig config, int bytes) {
        return (config.heads() + 2 * config.kvHeads()) * config.headDim() * bytes;
    }

    public static int resultBytes(ModelConfig config, int bytes) {
        return config.heads() * config.headDim() * bytes;
    }

    /** Takes a row that enters layer 0 in the next step. */
    public HostToken admit(Admission admission) {
        return enter(admission, admission.sampler().draw(NO_ADJUSTMENTS));
    }

    private void count(HostToken hostToken, int sign) {
        drawn += hostToken.draw.filter(draw -> !draw.greedy()).isPresent() ? sign : 0;
        reported += hostToken.draw.filter(draw -> draw.logprobs() >= 0).isPresent() ? sign : 0;
        undrawn += hostToken.draw.isEmpty() ? sign : 0;
    }

    /** Takes a row that passes all layers within the next step; it is sampled with the step's own. */
    public HostToken pass(Admission admission) {
        return enter(admission, Optional.empty());
    }

    private HostToken enter(Admission admission, Optional<TokenSampler.Draw> draw) {
        Integer index = free.poll();
        if (index == null) {
            throw new ExecutorException("more than " + MAX + " rows are the CPU's at a time");
        }
        HostToken hostToken = new HostToken(index, admission, draw);
        bySequence.put(hostToken.sequence(), hostToken);
        hostTokens.setRelease(index, hostToken);
        inFlight = true;
        count(hostToken, 1);
        return hostToken;
    }

    /** Numbers for so many tasks that the next step will ask for; returns the first. */
    public long promise(long tasks) {
        long first = promised;
        promised += tasks;
        return first;
    }

    /** Nobody answers any more: steps no longer wait. */
    void giveUp() {
        LONG.setRelease(memory.answered(), GIVEN_UP, 1L);
    }

    /** Whether steps no longer wait; one that has waited for too long says so itself, and so does a transfer kernel. */
    public boolean hasGivenUp() {
        return (long) LONG.getAcquire(memory.answered(), GIVEN_UP) != 0;
    }

    /** Whether a transfer kernel has: its step did not end. */
    boolean transferGaveUp() {
        return (long) LONG.getAcquire(memory.answered(), GIVEN_UP) == TRANSFER;
    }

    Collection<HostToken> all() {
        return bySequence.values();
    }

    HostToken hostToken(int index) {
        return hostTokens.get(index);
    }

    /** Whether workers should look for tasks. */
    boolean hasTokens() {
        return inFlight;
    }

    /** Whether some in-flight token is sampled by a draw. */
    public boolean draws() {
        return drawn > 0;
    }

    /** Whether log-probabilities of some in-flight token are wanted. */
    public boolean reportsLogprobs() {
        return reported > 0;
    }

    /** Whether the logits of some in-flight token are needed when it lands. */
    public boolean needsLogits() {
        return undrawn > 0;
    }

    /** A row shall go no further: the worker that has it next lets it go. */
    public void park(long sequence) {
        HostToken hostToken = bySequence.get(sequence);
        if (hostToken != null) {
            hostToken.parked = true;
        }
    }

    /** The row is through, let go, or lost: its number is free. */
    public void end(HostToken hostToken) {
        bySequence.remove(hostToken.sequence());
        hostTokens.set(hostToken.index, null);
        free.add(hostToken.index);
        count(hostToken, -1);
        inFlight = !bySequence.isEmpty();
    }

    HostToken pollReleased() {
        return released.poll();
    }

    public Failure pollFailure() {
        return failures.poll();
    }

    // the workers' side

    /** The next task, or -1 when there is none now; {@link #layer} and {@link #row} read it. */
    long take() {
        long number = taken.get();
        long entry = (long) LONG.getAcquire(memory.tasks(), (number & MAX - 1) * Long.BYTES);
        return entry >>> 24 == number + 1 && taken.compareAndSet(number, number + 1) ? entry & 0xffffff : NO_ENTRY;
    }

    /** A task that is some places behind the next one, if it is there already; else -1. */
    long peek(int places) {
        long number = taken.get() + places;
        long entry = (long) LONG.getOpaque(memory.tasks(), (number & MAX - 1) * Long.BYTES);
        return entry >>> 24 == number + 1 ? entry & 0xffffff : NO_ENTRY;
    }

    /**
     * The next parts of a task that a step waits for: the task's number + 1 in 40 bits, layer and row as in
     * {@link #take}; or -1 when there is none now. Which of its parts the worker has is written to {@code some}.
     */
    long takeAsked(Parts some) {
        long ticket = takenParts.get();
        long number = ticket / parts;
        long entry = (long) LONG.getAcquire(memory.asked(), (number & MAX - 1) * Long.BYTES);
        if (entry >>> 24 != number + 1) {
            return NO_ENTRY;
        }
        int first = (int) (ticket % parts);
        int count = first % together == 0 && isAsked(number + 1) ? together : 1;
        if (!takenParts.compareAndSet(ticket, ticket + count)) {
            return NO_ENTRY;
        }
        some.first = first;
        some.count = count;
        return entry;
    }

    private boolean isAsked(long number) {
        return (long) LONG.getOpaque(memory.asked(), (number & MAX - 1) * Long.BYTES) >>> 24 == number + 1;
    }

    /** Which parts of a task a worker has taken; its own. */
    static final class Parts {
        int first;
        int count;
    }

    /**
     * A part that is some places behind the next one: the task as in {@link #peek}, and before it the part's number
     * ({@link #part}); or -1.
     */
    long peekAsked(int places) {
        long ticket = takenParts.get() + places;
        long number = ticket / parts;
        long entry = (long) LONG.getOpaque(memory.asked(), (number & MAX - 1) * Long.BYTES);
        return entry >>> 24 == number + 1 ? ticket % parts << 24 | entry & 0xffffff : NO_ENTRY;
    }

    /** So many parts of the task are done, or never will be; the last answers. */
    void answer(long task, int count) {
        int index = row(task);
        if (partsDone.addAndGet(index, count) == parts) {
            partsDone.set(index, 0);
            LONG.setRelease(memory.answered(), (long) index * Long.BYTES, task >>> 24);
        }
    }

    /** Number of the part that {@link #peekAsked} has found. */
    static int part(long found) {
        return (int) (found >>> 24);
    }

    public static int layer(long task) {
        return (int) (task >>> 16 & 0xff);
    }

    public static int row(long task) {
        return (int) (task & 0xffff);
    }

    /** Addresses of the row's q, k and v. */
    public long query(int index) {
        return memory.sent().address() + (long) index * rowBytes;
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

    /** The row's attention of the layer is there. */
    void publish(int layer, int index) {
        long number = published.getAndIncrement();
        LONG.setRelease(memory.ready(), (number & MAX - 1) * Long.BYTES, number + 1 << 24 | (long) layer << 16 | index);
    }

    /** A parked row goes no further. */
    void released(HostToken hostToken) {
        released.add(hostToken);
    }

    void failed(HostToken hostToken, Throwable cause) {
        failures.add(new Failure(hostToken, cause));
    }

    // what a profiler, or a test, does in the GPU's stead

    /** Asks for a row's attention as the GPU would. */
    public void push(int layer, int index) {
        long number = pushed++;
        LONG.setRelease(memory.tasks(), (number & MAX - 1) * Long.BYTES, number + 1 << 24 | (long) layer << 16 | index);
    }

    /** Asks for a row's attention as a step that waits would. */
    public void ask(long number, int layer, int index) {
        LONG.setRelease(memory.asked(), (number & MAX - 1) * Long.BYTES, number + 1 << 24 | (long) layer << 16 | index);
    }

    /** Number + 1 of the row's last task that is done. */
    public long answered(int index) {
        return (long) LONG.getAcquire(memory.answered(), (long) index * Long.BYTES);
    }

    /** The task whose result came next, -1 when none has come. */
    public long nextResult() {
        long entry = (long) LONG.getAcquire(memory.ready(), (consumed & MAX - 1) * Long.BYTES);
        if (entry >>> 24 != consumed + 1) {
            return NO_ENTRY;
        }
        consumed++;
        return entry & 0xffffff;
    }

    /** After a profiler, with no in-flight token: the rings are as at the start. */
    public void reset() {
        memory.tasks().fill((byte) 0);
        memory.ready().fill((byte) 0);
        taken.set(0);
        published.set(0);
        pushed = 0;
        consumed = 0;
    }
}
