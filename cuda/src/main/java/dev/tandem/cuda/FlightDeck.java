package dev.tandem.cuda;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.engine.batch.Admission;
import dev.tandem.engine.execute.ExecutorException;
import dev.tandem.model.config.ModelConfig;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * What GPU and CPU share of the rows in flight (ready slots; prelude.cu names the device side):
 *
 * <pre>
 *  the step's kernels             courier, beside them             a worker on the CPU
 *  a row leaves a layer ────────► q, k, v to {@code sent},  ─────► takes the next entry, appends K and V,
 *    in its slot                  entry to {@code tasks}           attends, writes {@code results},
 *  a row boards a layer ◄──────── {@code arrivals[layer]} ◄──────  entry to {@code ready}
 * </pre>
 *
 * <p>Each ring entry carries its own number, so there is no separate tail to read. Nobody waits: a layer takes what has arrived
 * when it comes by, the courier what is ready, workers what is there. A flight has at most one entry in all rings together, so
 * rings of as many entries as there may be flights cannot overflow.
 *
 * <p>Owned by: engine thread, but for {@link #take}, {@link #publish}, {@link #released} and {@link #failed}, which workers call.
 */
final class FlightDeck implements AutoCloseable {
    /** Most rows in flight; prelude.cu keeps flight numbers in 16 bits. */
    static final int MOST = 1024;
    /** prelude.cu. */
    static final int MOST_SLOTS = 64;
    private static final int DRAW_BYTES = 32;
    private static final VarHandle LONG = JAVA_LONG.varHandle();
    private static final long NO_ENTRY = -1;

    /** A row whose attention threw. */
    record Failure(Flight flight, Throwable cause) {}

    private final ModelConfig config;
    private final int layers;
    private final int rowBytes;
    private final int resultBytes;
    private final List<AutoCloseable> owned = new ArrayList<>();
    private final DeviceBuffer residual;
    private final DeviceBuffer slotMaps;
    private final DeviceBuffer structure;
    private final MemorySegment tasks;
    private final MemorySegment ready;
    private final PinnedBuffer sent;
    private final PinnedBuffer results;
    private final AtomicLong taken = new AtomicLong();
    private final AtomicLong published = new AtomicLong();
    private final AtomicReferenceArray<Flight> flights = new AtomicReferenceArray<>(MOST);
    private final ArrayDeque<Integer> free = new ArrayDeque<>();
    private final Map<Long, Flight> bySequence = new LinkedHashMap<>();
    private final Queue<Flight> released = new ConcurrentLinkedQueue<>();
    private final Queue<Failure> failures = new ConcurrentLinkedQueue<>();
    private long consumed;
    private long pushed;
    private int drawn;
    private volatile boolean flying;

    FlightDeck(Device device, Stream stream, ModelShape shape) {
        this.config = shape.config();
        this.layers = config.layers();
        int half = shape.type().bytes();
        this.rowBytes = (config.heads() + 2 * config.kvHeads()) * config.headDim() * half;
        residual = buffer(device, 4L * MOST * shape.hidden(), "residuals of rows in flight");
        DeviceBuffer angles = buffer(device, 4L * MOST * config.headDim(), "angles of rows in flight");
        DeviceBuffer draws = buffer(device, (long) DRAW_BYTES * MOST, "draws of rows in flight");
        DeviceBuffer leaving = buffer(device, 2L * MOST_SLOTS * config.kvHeads() * shape.headWidth() * half, "k and v of rows in flight");
        slotMaps = buffer(device, 4L * (layers + 1) * MOST_SLOTS, "slots");
        DeviceBuffer outgoing = buffer(device, (long) MOST * rowBytes, "rows in flight on their way out");
        DeviceBuffer incoming = buffer(device, (long) MOST * config.heads() * config.headDim() * half, "attention that has arrived");
        DeviceBuffer departures = buffer(device, 8L * MOST, "departures");
        DeviceBuffer arrivals = buffer(device, 8L * MOST * layers, "arrivals");
        DeviceBuffer counters = buffer(device, 8L * (2 * layers + 4), "ring counters");
        PinnedBuffer taskRing = pinned(device, 8L * MOST, "the ring of attention tasks");
        PinnedBuffer readyRing = pinned(device, 8L * MOST, "the ring of attention results");
        tasks = taskRing.memory().fill((byte) 0);
        ready = readyRing.memory().fill((byte) 0);
        sent = pinned(device, (long) MOST * rowBytes, "q, k and v of rows in flight");
        resultBytes = config.heads() * config.headDim() * half;
        results = pinned(device, (long) MOST * resultBytes, "attention of rows in flight");
        structure = buffer(device, 256, "addresses of rows in flight");
        for (int index = 0; index < MOST; index++) {
            free.add(index);
        }
        long[] addresses = {
            residual.address(), angles.address(), draws.address(), leaving.address(), slotMaps.address(), outgoing.address(),
            incoming.address(), departures.address(), arrivals.address(), counters.address(), counters.address() + 8L * layers,
            counters.address() + 16L * layers, taskRing.address(), readyRing.address(), sent.address(), results.address(), MOST - 1
        };
        try (PinnedBuffer staging = device.pinned(8L * addresses.length, "addresses")) {
            MemorySegment.copy(addresses, 0, staging.memory(), JAVA_LONG, 0, addresses.length);
            stream.upload(structure, 0, staging.memory(), 8L * addresses.length);
            stream.fill(residual, 0);
            stream.fill(angles, 0);
            stream.fill(draws, 0);
            stream.fill(leaving, 0);
            stream.fill(slotMaps, -1);
            stream.fill(counters, 0);
            stream.fill(arrivals, 0);
            stream.fill(incoming, 0);
            stream.synchronise();
        }
    }

    private DeviceBuffer buffer(Device device, long bytes, String label) {
        DeviceBuffer buffer = device.allocate((bytes + 255) / 256 * 256, label);
        owned.add(buffer);
        return buffer;
    }

    private PinnedBuffer pinned(Device device, long bytes, String label) {
        PinnedBuffer buffer = device.pinned(bytes, label);
        owned.add(buffer);
        return buffer;
    }

    /** Address of {@code struct Flights} on the GPU. */
    long address() {
        return structure.address();
    }

    long bytes() {
        return residual.bytes();
    }

    /** Takes a row that enters layer 0 in the next step. */
    Flight admit(Admission admission) {
        Integer index = free.poll();
        if (index == null) {
            throw new ExecutorException("more than " + MOST + " rows are in flight");
        }
        Flight flight = new Flight(index, admission, admission.sampler().draw());
        if (flight.draw.filter(draw -> !draw.greedy()).isPresent()) {
            drawn++;
        }
        bySequence.put(flight.sequence(), flight);
        flights.setRelease(index, flight);
        flying = true;
        return flight;
    }

    Collection<Flight> all() {
        return bySequence.values();
    }

    Flight flight(int index) {
        return flights.get(index);
    }

    /** Whether workers should look for tasks. */
    boolean isFlying() {
        return flying;
    }

    /** Whether some row in flight is sampled by a draw. */
    boolean draws() {
        return drawn > 0;
    }

    /** A row shall go no further: the worker that has it next lets it go. */
    void park(long sequence) {
        Flight flight = bySequence.get(sequence);
        if (flight != null) {
            flight.parked = true;
        }
    }

    /** The row is through, let go, or lost: its number is free. */
    void end(Flight flight) {
        bySequence.remove(flight.sequence());
        flights.set(flight.index, null);
        free.add(flight.index);
        if (flight.draw.filter(draw -> !draw.greedy()).isPresent()) {
            drawn--;
        }
        flying = !bySequence.isEmpty();
    }

    Flight pollReleased() {
        return released.poll();
    }

    Failure pollFailure() {
        return failures.poll();
    }

    // the workers' side

    /** The next task, or -1 when there is none now; {@link #layer} and {@link #row} read it. */
    long take() {
        long number = taken.get();
        long entry = (long) LONG.getAcquire(tasks, (number & MOST - 1) * Long.BYTES);
        return entry >>> 24 == number + 1 && taken.compareAndSet(number, number + 1) ? entry & 0xffffff : NO_ENTRY;
    }

    /** A task that is some places behind the next one, if it is there already; else -1. */
    long peek(int places) {
        long number = taken.get() + places;
        long entry = (long) LONG.getOpaque(tasks, (number & MOST - 1) * Long.BYTES);
        return entry >>> 24 == number + 1 ? entry & 0xffffff : NO_ENTRY;
    }

    static int layer(long task) {
        return (int) (task >>> 16);
    }

    static int row(long task) {
        return (int) (task & 0xffff);
    }

    long query(int index) {
        return sent.address() + (long) index * rowBytes;
    }

    long key(int index) {
        return query(index) + (long) rowBytes / (config.heads() + 2 * config.kvHeads()) * config.heads();
    }

    long value(int index) {
        return key(index) + (long) rowBytes / (config.heads() + 2 * config.kvHeads()) * config.kvHeads();
    }

    /** Address of [heads, headDim] in the model's type. */
    long result(int index) {
        return results.address() + (long) index * resultBytes;
    }

    /** The row's attention of the layer is there. */
    void publish(int layer, int index) {
        long number = published.getAndIncrement();
        LONG.setRelease(ready, (number & MOST - 1) * Long.BYTES, number + 1 << 24 | (long) layer << 16 | index);
    }

    /** A parked row goes no further. */
    void released(Flight flight) {
        released.add(flight);
    }

    void failed(Flight flight, Throwable cause) {
        failures.add(new Failure(flight, cause));
    }

    // what a profiler does in the GPU's stead

    /** Asks for a row's attention as the GPU would. */
    void push(int layer, int index) {
        long number = pushed++;
        LONG.setRelease(tasks, (number & MOST - 1) * Long.BYTES, number + 1 << 24 | (long) layer << 16 | index);
    }

    /** The task whose result came next, -1 when none has come. */
    long nextResult() {
        long entry = (long) LONG.getAcquire(ready, (consumed & MOST - 1) * Long.BYTES);
        if (entry >>> 24 != consumed + 1) {
            return NO_ENTRY;
        }
        consumed++;
        return entry & 0xffffff;
    }

    /** After a profiler, with no row in flight: the rings are as at the start. */
    void reset() {
        tasks.fill((byte) 0);
        ready.fill((byte) 0);
        taken.set(0);
        published.set(0);
        pushed = 0;
        consumed = 0;
    }

    @Override
    public void close() {
        for (AutoCloseable buffer : owned) {
            try {
                buffer.close();
            } catch (RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
