package dev.tandem.cuda.hostattention;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeImplementations;
import dev.tandem.cpu.decode.DecodeTask;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.decode.Partial;
import dev.tandem.cpu.simd.Unpack;
import dev.tandem.cpu.topology.CpuTopology;
import dev.tandem.cpu.topology.ThreadAffinity;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.SlidingWindow;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntUnaryOperator;
import java.util.function.UnaryOperator;

/**
 * Pinned threads that compute the attention of host tokens, in the order in which steps need the results. A task of an
 * in-flight token is one worker's; workers share a task of a same-layer token by KV heads.
 *
 * <p>Workers spin while there are host tokens and park while there are none. Under a CPU quota, spinning uses up the
 * time that attention needs, so they poll every {@value #REST_NANOS} ns instead.
 *
 * <p>{@link dev.tandem.cpu.topology.WorkerPool} can park its workers between any two tasks, because the thread that has
 * work wakes them and waits for all of them. The GPU cannot wake a thread and no thread waits for a task's end, so
 * these workers must poll, and park only when there are no host tokens.
 *
 * <p>A task that throws loses its host token alone. The engine thread finds workers that have died, or that are at one
 * task for longer than the watchdog's time ({@link #check}).
 *
 * <p>Owned by: each worker owns the host token whose task it took, and is the only writer of its counters.
 */
public final class HostAttentionWorkers implements AutoCloseable {
    /** Cores that the workers leave to the engine and the server. */
    public static final int CORES_LEFT = 2;

    /** Spins before the worker yields its core: some tens of microseconds. */
    private static final int SPINS = 2_000;
    /** Longs between the counters of two workers: a cache line and the one that is fetched with it. */
    private static final int STRIDE = 16;
    /** Max time that {@link #close} grants a running task on top of the watchdog's. */
    private static final Duration LAST_TASK = Duration.ofSeconds(1);
    /** The default timer slack of Linux, so a shorter rest is no shorter. It is also the max delay of a result. */
    private static final long REST_NANOS = 50_000;

    private static final int BUSY = 0;
    private static final int STARTED = 1;
    private static final int TOKENS = 2;
    private static final int TASKS = 3;

    /**
     * The implementations of attention, by part of the KV heads.
     *
     * @param whole all KV heads, for in-flight tokens
     * @param single the KV heads of one subtask of a same-layer token ({@link HostAttentionQueues#subtasks})
     * @param several those of {@link HostAttentionQueues#subtasksPerTake} subtasks
     */
    public record Attention(PagedDecodeAttention whole, PagedDecodeAttention single, PagedDecodeAttention several) {
        /** The fastest implementations that this CPU has for a model. */
        public static Attention fastest(ModelShape shape) {
            int subtasks = HostAttentionQueues.subtasks(shape.config());
            int takes = subtasks / HostAttentionQueues.subtasksPerTake(shape.config());
            return new Attention(fastest(shape, 1), fastest(shape, subtasks), fastest(shape, takes));
        }

        /** Each implementation's replacement, so that tests can make attention fail. */
        public Attention replaced(UnaryOperator<PagedDecodeAttention> replacement) {
            return new Attention(replacement.apply(whole), replacement.apply(single), replacement.apply(several));
        }

        /** The three implementations. */
        public List<PagedDecodeAttention> all() {
            return List.of(whole, single, several);
        }

        /** The fastest implementation for the KV heads of one of so many equal parts. */
        private static PagedDecodeAttention fastest(ModelShape shape, int parts) {
            ModelConfig config = shape.config();
            BlockFormat format = new BlockFormat(config.kvHeads() / parts, config.headDim(), shape.type());
            return DecodeImplementations.all(format, config.heads() / parts).getFirst();
        }
    }

    /**
     * Where the threads run.
     *
     * @param pin whether each is bound to a core of its own where the topology allows it
     * @param left how many of the first cores are left to the engine and the server
     */
    public record Cores(CpuTopology topology, boolean pin, int left) {}

    /** Addresses of host KV blocks. */
    public interface HostBlocks {
        long address(int layer, int block);
    }

    private final HostAttentionQueues queues;
    private final Attention attention;
    private final HostBlocks blocks;
    private final KvLayout layout;
    private final IntUnaryOperator windows;
    private final Clock clock;
    private final long watchdogNanos;
    private final Cores cores;
    private final Thread[] threads;
    private final Timeline.Lane[] lanes;
    private final HostToken[] current;
    /** Per worker: nanoseconds at work, start time of its task or 0, tokens attended to, tasks. */
    private final AtomicLongArray counters;

    private final boolean pinned;
    private volatile boolean closed;

    /**
     * Starts the workers.
     *
     * @param layout which of a token's blocks are a layer's
     * @param windows of a layer, see {@link ModelConfig#window}
     * @param watchdogNanos time after which a task counts as stalled
     */
    public HostAttentionWorkers(
            HostAttentionQueues queues,
            Attention attention,
            HostBlocks blocks,
            KvLayout layout,
            IntUnaryOperator windows,
            Clock clock,
            Timeline timeline,
            int count,
            Cores cores,
            long watchdogNanos) {
        this.queues = queues;
        this.attention = attention;
        this.blocks = blocks;
        this.layout = layout;
        this.windows = windows;
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

    public boolean isPinned() {
        return pinned;
    }

    /** Number, placement and implementation, for the log. */
    public String text() {
        return "host attention: " + threads.length + " threads" + placement() + ", "
                + attention.whole().name();
    }

    /** Whether threads are bound to cores, and why not where that was requested. */
    String placement() {
        if (pinned) {
            return " pinned";
        }
        return cores.pin()
                ? " not pinned (" + cores.topology().pinObstacle(cores.left() + threads.length) + ")"
                : " not pinned";
    }

    /** Binds the calling engine thread, and the threads that it starts, to the cores that no worker uses. */
    public void pinEngine() {
        if (pinned && cores.left() > 0) {
            ThreadAffinity.pin(cores.topology().order().subList(0, cores.left()));
        }
    }

    /** Wakes parked workers; the caller has registered host tokens, whose tasks will follow. */
    public void wake() {
        for (Thread thread : threads) {
            LockSupport.unpark(thread);
        }
    }

    /** Mean nanoseconds per worker spent on tasks. */
    long busyNanos() {
        return sum(BUSY) / threads.length;
    }

    /** Attention of a token in a layer, computed so far. */
    long tasks() {
        return sum(TASKS);
    }

    /** Tokens attended to so far, summed over layers. */
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

    /** Describes the first worker that has died or is stalled; empty when all are well. */
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
     * The host tokens that a worker is computing, whose blocks it may still write. A token that ended
     * ({@link HostAttentionQueues#end}) before this call and is not in the result is never written again.
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

    /** Whether every worker thread has ended. */
    public boolean ended() {
        for (Thread thread : threads) {
            if (thread.isAlive()) {
                return false;
            }
        }
        return true;
    }

    @SuppressWarnings("ThreadPriorityCheck") // the yield is for speed only
    private void work(int worker, int core) {
        if (core >= 0) {
            ThreadAffinity.pin(core);
        }
        // first touched by this thread, so the memory is on this core's NUMA node
        try (Arena own = Arena.ofConfined()) {
            WorkerContext context = new WorkerContext(attention, own);
            for (int spins = 0; !closed; spins++) {
                long sameLayer = queues.takeSameLayer(context.subtasks); // first, because a step waits for these
                long task = sameLayer >= 0 ? sameLayer : queues.take();
                if (sameLayer >= 0) {
                    serve(worker, task, context, true);
                    queues.complete(task, context.subtasks.count, clock.nanos());
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

    /** An implementation of attention with one worker's scratch memory. */
    private static final class Kernel {
        final PagedDecodeAttention attention;
        final PagedDecodeAttention.Scratch scratch;
        final Partial partial;
        final Partial sum;

        Kernel(PagedDecodeAttention attention, Arena arena) {
            this.attention = attention;
            scratch = attention.scratch(arena);
            partial = new Partial(attention.heads(), attention.format().headDim());
            sum = new Partial(attention.heads(), attention.format().headDim());
        }

        int values() {
            return attention.heads() * attention.format().headDim();
        }
    }

    /** One worker's state. */
    private static final class WorkerContext {
        final Kernel whole;
        final Kernel single;
        final Kernel several;
        final HostAttentionQueues.Subtasks subtasks = new HostAttentionQueues.Subtasks();
        final DecodeTask task = new DecodeTask();
        /** [heads, headDim] fp32 */
        final MemorySegment out;

        long[] blocks = new long[64];

        WorkerContext(Attention attention, Arena arena) {
            whole = new Kernel(attention.whole(), arena);
            single = new Kernel(attention.single(), arena);
            several = new Kernel(attention.several(), arena);
            int count = whole.values();
            out = arena.allocate((long) count * Float.BYTES, 64);
        }

        Kernel kernel(boolean sameLayer) {
            return !sameLayer ? whole : subtasks.count == 1 ? single : several;
        }
    }

    /** @param sameLayer whether a step waits for the task; the caller completes it even when it fails */
    private void serve(int worker, long task, WorkerContext context, boolean sameLayer) {
        HostToken hostToken = queues.hostToken(HostAttentionQueues.tokenIndex(task));
        if (hostToken == null) {
            return; // lost after the GPU pushed the task
        }
        if (hostToken.isPaused()) {
            queues.released(hostToken);
            return;
        }
        current[worker] = hostToken;
        long started = clock.nanos();
        counters.set(worker * STRIDE + STARTED, started);
        if (queues.hostToken(hostToken.index) != hostToken) {
            counters.setRelease(worker * STRIDE + STARTED, 0);
            return; // lost before the engine could see this worker hold it: its blocks may have a new owner
        }
        int layer = HostAttentionQueues.layer(task);
        hostToken.taken(layer);
        hostToken.began(started);
        boolean publishes = !sameLayer;
        try {
            attend(hostToken, layer, context, sameLayer);
        } catch (RuntimeException | Error e) {
            publishes = hostToken.fail() && !sameLayer;
            queues.failed(hostToken, e);
        }
        if (publishes) {
            queues.publish(layer, hostToken.index);
        }
        counters.setRelease(worker * STRIDE + STARTED, 0);
        long ended = clock.nanos();
        lanes[worker].add(
                Timeline.Kind.CPU_ATTENTION, started, ended, Timeline.layerAndSequence(layer, hostToken.sequence()));
        add(worker, BUSY, ended - started);
        if (!sameLayer || context.subtasks.first == 0) { // the other subtasks are of the same task
            add(worker, TASKS, 1);
            add(worker, TOKENS, hostToken.context() - visible(hostToken, layer));
        }
    }

    private void add(int worker, int what, long value) {
        counters.setOpaque(worker * STRIDE + what, counters.getPlain(worker * STRIDE + what) + value);
    }

    /** @param sameLayer whether the worker computes its subtasks, rather than all KV heads */
    private void attend(HostToken hostToken, int layer, WorkerContext context, boolean sameLayer) {
        Kernel kernel = context.kernel(sameLayer);
        PagedDecodeAttention single = attention.single();
        BlockFormat format = single.format();
        int first = sameLayer ? context.subtasks.first : 0;
        KvView table = hostToken.admission.kv(layout.groupOf(layer));
        int count = (hostToken.context() - 1) / BlockFormat.TOKENS + 1;
        if (context.blocks.length < count) {
            context.blocks = new long[2 * count];
        }
        int visible = visible(hostToken, layer);
        for (int i = visible / BlockFormat.TOKENS; i < count; i++) {
            context.blocks[i] = blocks.address(layer, table.block(i)) + first * format.blockBytes();
        }
        int index = hostToken.index;
        int headBytes = format.headDim() * format.type().bytes();
        long queryShift = (long) first * single.heads() * headBytes;
        long keyShift = (long) first * format.kvHeads() * headBytes;
        context.task.set(
                queues.query(index) + queryShift,
                queues.key(index) + keyShift,
                queues.value(index) + keyShift,
                context.blocks,
                hostToken.context(),
                visible,
                context.out.address());
        kernel.attention.run(
                context.task, sameLayer ? nextSubtask(context) : next(), kernel.scratch, kernel.partial, kernel.sum);
        Unpack.fromFloats(format.type(), context.out.address(), kernel.values(), queues.result(index) + queryShift);
    }

    /** The position of the first token that a host token attends to. */
    private int visible(HostToken hostToken, int layer) {
        return SlidingWindow.first(hostToken.context() - 1, windows.applyAsInt(layer));
    }

    /**
     * Address of the first block that this worker will read next if all workers are equally fast, for prefetching; 0
     * when unknown.
     */
    private long next() {
        return firstBlock(queues.peek(threads.length - 1));
    }

    /** Likewise, of the next subtask. */
    private long nextSubtask(WorkerContext context) {
        long found = queues.peekSameLayer((threads.length - 1) * context.subtasks.count);
        long first = firstBlock(found);
        return first == 0
                ? 0
                : first
                        + HostAttentionQueues.subtask(found)
                                * attention.single().format().blockBytes();
    }

    private long firstBlock(long task) {
        HostToken hostToken = task < 0 ? null : queues.hostToken(HostAttentionQueues.tokenIndex(task));
        if (hostToken == null) {
            return 0;
        }
        int layer = HostAttentionQueues.layer(task);
        KvView table = hostToken.admission.kv(layout.groupOf(layer));
        return blocks.address(layer, table.block(visible(hostToken, layer) / BlockFormat.TOKENS));
    }

    /** Waits until running tasks end, but not for stalled ones: see {@link #ended}. */
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
