package dev.tandem.cuda.hostattention;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeTask;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.decode.Partial;
import dev.tandem.cpu.simd.Unpack;
import dev.tandem.cpu.topology.CpuTopology;
import dev.tandem.cpu.topology.ThreadAffinity;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.observe.Timeline;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;

/**
 * Pinned threads that compute the attention of in-flight tokens: whole (row, layer) tasks, in the order in which the
 * GPU asked. They spin while rows are in flight and park while none is. With a CPU quota, spinning uses up the time
 * that attention needs: they then look for tasks every {@value #REST_NANOS} ns.
 *
 * <p>A task that throws loses its row alone. A worker that is gone, or has been at one task for longer than the
 * watchdog's time, is for the engine thread to find ({@link #check}).
 *
 * <p>Owned by: each worker owns the row whose task it took; counters are written by their worker alone.
 */
public final class HostAttentionWorkers implements AutoCloseable {
    /** Cores that the workers leave to the engine and the server. */
    public static final int CORES_LEFT = 2;

    /** Some tens of microseconds: then the core is offered to others. */
    private static final int SPINS = 2_000;
    /** Longs between the counters of two workers: a cache line and the one that is fetched with it. */
    private static final int STRIDE = 16;
    /** A task that is under way at the end takes no longer, unless it is stalled. */
    private static final Duration LAST_TASK = Duration.ofSeconds(1);
    /** The shortest that Linux grants a thread without asking for more: a result is late by no more than that. */
    private static final long REST_NANOS = 50_000;

    private static final int BUSY = 0;
    private static final int STARTED = 1;
    private static final int TOKENS = 2;

    /**
     * Who computes.
     *
     * @param whole in-flight tokens
     * @param part of the KV heads, one in {@link HostAttentionQueues#parts}, of rows that a step waits for
     * @param several such parts, {@link HostAttentionQueues#together} of them
     */
    public record Attention(PagedDecodeAttention whole, PagedDecodeAttention part, PagedDecodeAttention several) {}

    /**
     * Where the threads run.
     *
     * @param pin whether each is bound to a core of its own where the topology allows it
     * @param left the first cores, left to the engine and the server
     */
    public record Cores(CpuTopology topology, boolean pin, int left) {}

    /** Where host KV is. */
    public interface HostBlocks {
        long address(int layer, int block);
    }

    private final HostAttentionQueues queues;
    private final Attention attention;
    private final HostBlocks blocks;
    private final Clock clock;
    private final long watchdogNanos;
    private final Cores cores;
    private final Thread[] threads;
    private final Timeline.Lane[] lanes;
    private final HostToken[] current;
    /** Of each worker: nanoseconds at work, when its task began or 0, tokens attended to. */
    private final AtomicLongArray counters;

    private final boolean pinned;
    private volatile boolean closed;

    /** @param watchdogNanos time after which a task counts as stalled */
    public HostAttentionWorkers(
            HostAttentionQueues queues,
            Attention attention,
            HostBlocks blocks,
            Clock clock,
            Timeline timeline,
            int count,
            Cores cores,
            long watchdogNanos) {
        this.queues = queues;
        this.attention = attention;
        this.blocks = blocks;
        this.clock = clock;
        this.watchdogNanos = watchdogNanos;
        this.cores = cores;
        this.current = new HostToken[count];
        this.counters = new AtomicLongArray(STRIDE * (count + 1));
        List<Integer> order = cores.topology().order();
        this.pinned = cores.pin() && cores.topology().canPin(cores.left() + count);
        this.lanes = new Timeline.Lane[count];
        this.threads = new Thread[count];
        for (int i = 0; i < count; i++) {
            int worker = i;
            lanes[i] = timeline.lane("attention " + i);
            int core = pinned ? order.get(cores.left() + i) : -1;
            threads[i] =
                    Thread.ofPlatform().daemon().name("tandem-attention-" + i).start(() -> work(worker, core));
        }
    }

    public int count() {
        return threads.length;
    }

    /** The implementation of attention, as the log names it. */
    public String implementation() {
        return attention.whole().name();
    }

    public boolean isPinned() {
        return pinned;
    }

    /** Whether threads are bound to cores, and why not where that was wanted, as the log says it. */
    public String placement() {
        if (pinned) {
            return " pinned";
        }
        return cores.pin()
                ? " not pinned (" + cores.topology().pinObstacle(cores.left() + threads.length) + ")"
                : " not pinned";
    }

    /**
     * Binds the calling thread, the engine's, and whatever it starts to the cores that are left: no worker is there.
     */
    public void pinEngine() {
        if (pinned && cores.left() > 0) {
            ThreadAffinity.pin(cores.topology().order().subList(0, cores.left()));
        }
    }

    /** Rows are in flight: tasks will follow. */
    public void wake() {
        for (Thread thread : threads) {
            LockSupport.unpark(thread);
        }
    }

    /** Nanoseconds that the workers have been at work, as if all of them always worked together. */
    long busyNanos() {
        return sum(BUSY) / threads.length;
    }

    /** Tokens attended to so far, each layer's counted. */
    long tokens() {
        return sum(TOKENS);
    }

    private long sum(int what) {
        long sum = 0;
        for (int i = 0; i < threads.length; i++) {
            sum += counters.getOpaque(i * STRIDE + what);
        }
        return sum;
    }

    /** Looks for workers that are gone or stalled; what there is to say of one. */
    public Optional<String> check() {
        for (int i = 0; i < threads.length; i++) {
            long started = counters.getAcquire(i * STRIDE + STARTED);
            if (!threads[i].isAlive()) {
                return Optional.of("the attention worker " + threads[i].getName() + " is gone");
            }
            if (started != 0 && clock.nanos() - started > watchdogNanos) {
                return Optional.of("the attention worker " + threads[i].getName() + " has been at one task for "
                        + watchdogNanos / 1_000_000 + " ms");
            }
        }
        return Optional.empty();
    }

    /**
     * Rows that somebody is at work on and may yet write. Of rows that have ended ({@link HostAttentionQueues#end})
     * before this is called, no others will be.
     */
    Set<HostToken> held() {
        Set<HostToken> held = new HashSet<>();
        for (int i = 0; i < threads.length; i++) {
            if (threads[i].isAlive() && counters.get(i * STRIDE + STARTED) != 0) {
                held.add(current[i]);
            }
        }
        return held;
    }

    /** Whether every worker has come to its end. */
    public boolean ended() {
        for (Thread thread : threads) {
            if (thread.isAlive()) {
                return false;
            }
        }
        return true;
    }

    private void work(int worker, int core) {
        if (core >= 0) {
            ThreadAffinity.pin(core);
        }
        // memory of its own, first touched here: on this core's node
        try (Arena own = Arena.ofConfined()) {
            WorkerContext context = new WorkerContext(attention, own);
            for (int spins = 0; !closed; spins++) {
                long asked = queues.takeAsked(context.parts); // a step waits for it
                long task = asked >= 0 ? asked : queues.take();
                if (asked >= 0) {
                    serve(worker, task, context, true);
                    queues.answer(task, context.parts.count);
                    spins = 0;
                } else if (task >= 0) {
                    serve(worker, task, context, false);
                    spins = 0;
                } else if (!queues.hasTokens()) {
                    LockSupport.park(this);
                } else if (spins < SPINS) {
                    Thread.onSpinWait();
                } else if (cores.topology().limited()) {
                    LockSupport.parkNanos(this, REST_NANOS);
                } else {
                    Thread.yield();
                }
            }
        }
    }

    /** What one worker computes so many heads with. */
    private static final class Tools {
        final PagedDecodeAttention attention;
        final PagedDecodeAttention.Scratch scratch;
        final Partial partial;
        final Partial sum;

        Tools(PagedDecodeAttention attention, Arena arena) {
            this.attention = attention;
            scratch = attention.scratch(arena);
            partial = new Partial(attention.heads(), attention.format().headDim());
            sum = new Partial(attention.heads(), attention.format().headDim());
        }

        int values() {
            return attention.heads() * attention.format().headDim();
        }
    }

    /** What one worker works at. */
    private static final class WorkerContext {
        final Tools whole;
        final Tools part;
        final Tools several;
        final HostAttentionQueues.Parts parts = new HostAttentionQueues.Parts();
        final DecodeTask task = new DecodeTask();
        /** [heads, headDim] fp32 */
        final MemorySegment out;

        long[] blocks = new long[64];

        WorkerContext(Attention attention, Arena arena) {
            whole = new Tools(attention.whole(), arena);
            part = new Tools(attention.part(), arena);
            several = new Tools(attention.several(), arena);
            int count = whole.values();
            out = arena.allocate((long) count * Float.BYTES, 64);
        }

        Tools tools(boolean waitedFor) {
            return !waitedFor ? whole : parts.count == 1 ? part : several;
        }
    }

    /** @param waitedFor whether a step waits for it: it has its answer whatever happens */
    private void serve(int worker, long task, WorkerContext context, boolean waitedFor) {
        HostToken hostToken = queues.hostToken(HostAttentionQueues.row(task));
        if (hostToken == null) {
            return; // lost while it was on its way here
        }
        if (hostToken.parked) {
            queues.released(hostToken);
            return;
        }
        current[worker] = hostToken;
        long started = clock.nanos();
        counters.set(worker * STRIDE + STARTED, started);
        if (queues.hostToken(hostToken.index) != hostToken) {
            counters.setRelease(worker * STRIDE + STARTED, 0);
            return; // lost before it was seen that somebody holds it: its blocks are another's
        }
        try {
            attend(hostToken, HostAttentionQueues.layer(task), context, waitedFor);
            if (!waitedFor) {
                queues.publish(HostAttentionQueues.layer(task), hostToken.index);
            }
        } catch (RuntimeException | Error e) {
            queues.failed(hostToken, e);
        }
        counters.setRelease(worker * STRIDE + STARTED, 0);
        long ended = clock.nanos();
        lanes[worker].add(
                Timeline.Kind.CPU_ATTENTION,
                started,
                ended,
                Timeline.layerAndSequence(HostAttentionQueues.layer(task), hostToken.sequence()));
        add(worker, BUSY, ended - started);
        add(worker, TOKENS, waitedFor && context.parts.first > 0 ? 0 : hostToken.context());
    }

    private void add(int worker, int what, long value) {
        counters.setOpaque(worker * STRIDE + what, counters.getPlain(worker * STRIDE + what) + value);
    }

    /** @param waitedFor whether the worker has some parts of the row, rather than all */
    private void attend(HostToken hostToken, int layer, WorkerContext context, boolean waitedFor) {
        Tools tools = context.tools(waitedFor);
        PagedDecodeAttention part = attention.part();
        BlockFormat format = part.format();
        int first = waitedFor ? context.parts.first : 0;
        int[] table = hostToken.admission.blocks();
        int count = (hostToken.context() - 1) / BlockFormat.TOKENS + 1;
        if (context.blocks.length < count) {
            context.blocks = new long[2 * count];
        }
        for (int i = 0; i < count; i++) {
            context.blocks[i] = blocks.address(layer, table[i]) + first * format.blockBytes();
        }
        int row = hostToken.index;
        int headBytes = format.headDim() * format.type().bytes();
        long queryShift = (long) first * part.heads() * headBytes;
        long keyShift = (long) first * format.kvHeads() * headBytes;
        context.task.set(
                queues.query(row) + queryShift,
                queues.key(row) + keyShift,
                queues.value(row) + keyShift,
                context.blocks,
                hostToken.context(),
                context.out.address());
        tools.attention.run(
                context.task, waitedFor ? nextPart(context) : next(), tools.scratch, tools.partial, tools.sum);
        Unpack.fromFloats(format.type(), context.out.address(), tools.values(), queues.result(row) + queryShift);
    }

    /** The first block of what this worker will take next, if all are equally fast; 0 when nobody knows. */
    private long next() {
        return firstBlock(queues.peek(threads.length - 1));
    }

    /** Likewise of the part that it will take next. */
    private long nextPart(WorkerContext context) {
        long found = queues.peekAsked((threads.length - 1) * context.parts.count);
        long first = firstBlock(found);
        return first == 0
                ? 0
                : first
                        + HostAttentionQueues.part(found)
                                * attention.part().format().blockBytes();
    }

    private long firstBlock(long task) {
        HostToken hostToken = task < 0 ? null : queues.hostToken(HostAttentionQueues.row(task));
        return hostToken == null
                ? 0
                : blocks.address(
                        HostAttentionQueues.layer(task), hostToken.admission.blocks()[0]);
    }

    /** Waits for workers at work, but not for those that are stalled: see {@link #ended}. */
    @Override
    public void close() {
        closed = true;
        wake();
        boolean interrupted = false;
        long deadline =
                clock.nanos() + Duration.ofNanos(watchdogNanos).plus(LAST_TASK).toNanos();
        for (Thread thread : threads) {
            try {
                thread.join(Duration.ofNanos(Math.max(1, deadline - clock.nanos())));
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
