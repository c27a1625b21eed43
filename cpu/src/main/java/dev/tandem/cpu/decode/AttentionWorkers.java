package dev.tandem.cpu.decode;

import dev.tandem.cpu.topology.CpuTopology;
import dev.tandem.cpu.topology.ThreadAffinity;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.execute.ExecutorException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Threads that run decode tasks in the order in which they were submitted. A task is a ring slot; a row that is not
 * longer than a segment is one ticket, taken whole by one worker, a longer one is a ticket a segment, and whoever
 * finishes the last merges them. A task's end is a flag in native memory, so that a GPU may watch it.
 *
 * <p>Workers spin while a step is under way, then offer their core, and park when none is. A worker that fails ends
 * its task with the failure noted; {@link #await} reports it.
 *
 * <p>Owned by: one submitting thread; workers own the tasks they took.
 */
public final class AttentionWorkers implements AutoCloseable {
    private static final VarHandle FLAG = ValueLayout.JAVA_LONG.varHandle();
    /** Some tens of microseconds, longer than a pause between layers and shorter than a time slice. */
    private static final int SPINS = 2_000;
    /** Who rests is woken; in between it looks whether all workers are there. */
    private static final long LOOK_NANOS = 1_000_000;
    private static final int NONE = -1;

    /** A task that is under way. */
    private static final class Slot {
        DecodeTask task;
        int segments;
        final AtomicInteger left = new AtomicInteger();
        Partial[] partials = new Partial[0];
    }

    private final PagedDecodeAttention attention;
    private final int mask;
    private final Slot[] slots;
    /** [tickets] slot and segment of each. */
    private final int[] ticketSlot;
    private final int[] ticketSegment;
    private final int ticketMask;
    private final AtomicLong taken = new AtomicLong();
    private final AtomicLong published = new AtomicLong();
    private final Arena arena = Arena.ofShared();
    /** [slots] the number of the task that ended last in the slot, plus one. */
    private final MemorySegment flags;
    private final Thread[] threads;
    private final boolean pinned;
    private long submitted;
    private long tickets;
    private volatile Throwable failure;
    /** Who waits, and for the task of which slot while it rests. */
    private volatile Thread waiter;
    private volatile int awaited = NONE;
    private volatile boolean stepping;
    private volatile boolean closed;

    /**
     * @param threads workers; they take cores from the {@code leave}-th of {@link CpuTopology#order} on
     * @param pin whether each is bound to a core of its own, where there are enough
     * @param leave cores for the engine and the server
     * @param capacity tasks that may be under way
     * @param longest tokens that a task may attend to, when all of them do
     */
    public AttentionWorkers(PagedDecodeAttention attention, int threads, boolean pin, int leave, int capacity, int longest) {
        if (threads < 1) {
            throw new ConfigurationException("--attention-threads " + threads + " leaves nobody to attend; at least 1");
        }
        this.attention = attention;
        int size = Integer.highestOneBit(Math.max(2, capacity) * 2 - 1);
        this.mask = size - 1;
        this.slots = new Slot[size];
        Arrays.setAll(slots, i -> new Slot());
        int tickets = size * (Integer.highestOneBit(2 * PagedDecodeAttention.segments(longest) - 1));
        this.ticketSlot = new int[tickets];
        this.ticketSegment = new int[tickets];
        this.ticketMask = tickets - 1;
        this.flags = arena.allocate((long) size * Long.BYTES, 64);
        CpuTopology topology = CpuTopology.find();
        this.pinned = pin && leave + threads <= topology.order().size();
        this.threads = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            int core = pinned ? topology.order().get(leave + i) : -1;
            this.threads[i] =
                    Thread.ofPlatform().daemon().name("tandem-attention-" + i).start(() -> work(core));
        }
    }

    /** Whether each worker has a core of its own. */
    public boolean isPinned() {
        return pinned;
    }

    /** Address of the flags: task number {@code n} has ended when the long at {@code n % capacity} is above {@code n}. */
    public long flags() {
        return flags.address();
    }

    /** Wakes the workers: tasks will follow closely. */
    public void beginStep() {
        stepping = true;
        for (Thread thread : threads) {
            LockSupport.unpark(thread);
        }
    }

    /** Lets the workers rest once they have nothing to do. */
    public void endStep() {
        stepping = false;
    }

    /**
     * Adds a task; it and its memory stay as they are until it has ended.
     *
     * @return its number
     * @throws ExecutorException when more tasks are under way than fit
     */
    public long submit(DecodeTask task) {
        long number = submitted;
        Slot slot = slots[(int) (number & mask)];
        int segments = PagedDecodeAttention.segments(task.context);
        boolean busy = number > mask && !isDone(number - mask - 1);
        if (busy || tickets + segments - taken.get() > ticketMask + 1) {
            throw new ExecutorException("more than " + (mask + 1) + " attention tasks, or " + (ticketMask + 1)
                    + " segments of them, are under way");
        }
        slot.task = task;
        slot.segments = segments;
        slot.left.set(segments);
        if (segments > 1) {
            reserve(slot, segments);
        }
        for (int segment = 0; segment < segments; segment++) {
            int ticket = (int) (tickets++ & ticketMask);
            ticketSlot[ticket] = (int) (number & mask);
            ticketSegment[ticket] = segment;
        }
        submitted++;
        published.setRelease(tickets);
        return number;
    }

    private void reserve(Slot slot, int segments) {
        if (slot.partials.length < segments) {
            Partial[] more = Arrays.copyOf(slot.partials, segments);
            for (int i = slot.partials.length; i < segments; i++) {
                more[i] = newPartial();
            }
            slot.partials = more;
        }
    }

    private Partial newPartial() {
        return new Partial(attention.heads(), attention.format().headDim());
    }

    /** Whether the task has ended. */
    public boolean isDone(long number) {
        return (long) FLAG.getAcquire(flags, (number & mask) * Long.BYTES) > number;
    }

    /**
     * Waits for every task that was submitted.
     *
     * @throws ExecutorException when one failed, or a worker is gone
     */
    public void await() {
        waiter = Thread.currentThread();
        long least = Math.max(0, submitted - mask - 1);
        int spins = 0;
        // the last first: tasks are taken in order, so that the others end at about its time
        for (long number = submitted - 1; number >= least; number--) {
            while (!isDone(number) && spins++ < SPINS) {
                Thread.onSpinWait();
            }
            if (!isDone(number)) {
                rest(number);
            }
        }
        Throwable problem = failure;
        if (problem != null) {
            failure = null;
            throw new ExecutorException("an attention worker failed: " + problem, problem);
        }
    }

    /** A worker may need the core that the caller waits on: the caller is woken when the task has ended. */
    private void rest(long number) {
        int slot = (int) (number & mask);
        awaited = slot;
        while ((long) FLAG.getVolatile(flags, (long) slot * Long.BYTES) <= number) {
            LockSupport.parkNanos(this, LOOK_NANOS);
            checkAlive();
        }
        awaited = NONE;
    }

    private void checkAlive() {
        for (Thread thread : threads) {
            if (!thread.isAlive()) {
                throw new ExecutorException("the attention worker " + thread.getName() + " is gone");
            }
        }
    }

    private static void pause(int spins) {
        if (spins < SPINS) {
            Thread.onSpinWait();
        } else {
            Thread.yield();
        }
    }

    private void work(int core) {
        if (core >= 0) {
            ThreadAffinity.pin(core);
        }
        // memory of its own, first touched here: on this core's node
        try (Arena own = Arena.ofConfined()) {
            PagedDecodeAttention.Scratch scratch = attention.scratch(own);
            Partial partial = newPartial();
            Partial sum = newPartial();
            while (!closed) {
                // also before the first step: what is submitted before one waits for it, however late this thread starts
                if (!stepping && !closed) {
                    LockSupport.park(this);
                }
                spin(scratch, partial, sum);
            }
        }
    }

    /** Takes tickets until a step has ended and none is left. */
    private void spin(PagedDecodeAttention.Scratch scratch, Partial partial, Partial sum) {
        for (int spins = 0; !closed; spins++) {
            long ticket = taken.get();
            if (ticket < published.getAcquire()) {
                if (taken.compareAndSet(ticket, ticket + 1)) {
                    run((int) (ticket & ticketMask), next(ticket), scratch, partial, sum);
                    spins = 0;
                }
            } else if (stepping) {
                pause(spins);
            } else {
                return;
            }
        }
    }

    /** The first block of what this worker will take after the ticket, if all are equally fast; 0 when there is none yet. */
    private long next(long ticket) {
        long later = ticket + threads.length;
        if (later >= published.getAcquire()) {
            return 0;
        }
        int at = (int) (later & ticketMask);
        return slots[ticketSlot[at]].task.block(ticketSegment[at] * PagedDecodeAttention.SEGMENT_BLOCKS);
    }

    private void run(int ticket, long next, PagedDecodeAttention.Scratch scratch, Partial partial, Partial sum) {
        int index = ticketSlot[ticket];
        Slot slot = slots[index];
        int segment = ticketSegment[ticket];
        try {
            if (slot.segments == 1) {
                attention.run(slot.task, next, scratch, partial, sum);
            } else {
                segment(slot, segment, next, scratch);
            }
        } catch (RuntimeException | Error e) {
            failure = e;
        }
        if (slot.left.decrementAndGet() == 0) {
            if (slot.segments > 1) {
                merge(slot, sum);
            }
            long at = (long) index * Long.BYTES;
            long before = (long) FLAG.getOpaque(flags, at);
            FLAG.setVolatile(flags, at, before == 0 ? index + 1L : before + mask + 1);
            if (awaited == index) {
                LockSupport.unpark(waiter);
            }
        }
    }

    private void segment(Slot slot, int segment, long next, PagedDecodeAttention.Scratch scratch) {
        int first = segment * PagedDecodeAttention.SEGMENT_BLOCKS;
        int last = Math.min(slot.task.blockCount(), first + PagedDecodeAttention.SEGMENT_BLOCKS);
        attention.partial(slot.task, first, last, next, scratch, slot.partials[segment]);
    }

    private static void merge(Slot slot, Partial sum) {
        sum.clear();
        for (int i = 0; i < slot.segments; i++) {
            sum.merge(slot.partials[i]);
        }
        sum.finish(slot.task.out);
    }

    @Override
    public void close() {
        closed = true;
        boolean interrupted = false;
        for (Thread thread : threads) {
            LockSupport.unpark(thread);
            while (thread.isAlive()) {
                try {
                    thread.join();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        arena.close();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
