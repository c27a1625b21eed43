package dev.tandem.cpu.probe;

import dev.tandem.cpu.simd.BandwidthKernels;
import dev.tandem.cpu.topology.CpuInfo;
import dev.tandem.cpu.topology.NativeMemory;
import dev.tandem.cpu.topology.WorkerPool;
import dev.tandem.engine.clock.Clock;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Measures a machine's read bandwidth and arithmetic rate, with as many worker threads as the computation has. Closing
 * the probe frees its memory.
 *
 * <p>Owned by: the thread that measures.
 */
public final class MachineProbe implements AutoCloseable {
    /** Larger than any last-level cache, also where a virtual machine sees all of the host's. */
    private static final long READ_BYTES = 512L << 20;

    private static final int SLICES = 64;
    private static final int FMA_ROUNDS = 2_000_000;

    private final Arena arena = Arena.ofShared();
    private final WorkerPool workers;
    private final Clock clock;
    private final MemorySegment memory;
    private long sink;

    /** Starts {@code threads} workers, writes the memory that {@link #readGigabytesPerSecond} reads, and warms up. */
    public MachineProbe(int threads, Clock clock) {
        this.workers = new WorkerPool(threads, false);
        this.clock = clock;
        this.memory = NativeMemory.allocate(READ_BYTES, "the bandwidth probe", arena);
        for (long at = 0; at < READ_BYTES; at += Long.BYTES) {
            memory.set(ValueLayout.JAVA_LONG, at, at * 0x9E3779B97F4A7C15L);
        }
        // in the first rounds the JIT compiler compiles the loops
        for (int i = 0; i < 3; i++) {
            readGigabytesPerSecond();
            fmaGigaflops();
        }
    }

    /** Reads the memory once, far more than any cache holds; returns 10^9 bytes per second. */
    public double readGigabytesPerSecond() {
        long slice = READ_BYTES / SLICES;
        int[] sums = new int[workers.size()];
        long start = clock.nanos();
        workers.beginStep();
        workers.run(
                SLICES,
                (index, worker) -> sums[worker] += BandwidthKernels.read(memory.address() + index * slice, slice));
        workers.endStep();
        double seconds = (clock.nanos() - start) / 1e9;
        sink += sums[0];
        return READ_BYTES / seconds / 1e9;
    }

    /** Runs fused multiply-adds on registers; returns 10^9 operations per second, two per multiply-add. */
    public double fmaGigaflops() {
        int tasks = workers.size() * 8;
        float[] results = new float[tasks];
        long start = clock.nanos();
        workers.beginStep();
        workers.run(tasks, (index, worker) -> results[index] = BandwidthKernels.multiplyAdd(FMA_ROUNDS));
        workers.endStep();
        double seconds = (clock.nanos() - start) / 1e9;
        sink += (long) results[0];
        return (double) tasks * FMA_ROUNDS * BandwidthKernels.flopsPerRound() / seconds / 1e9;
    }

    /** The number of processors and their model name, as recorded in results. */
    public static String machine() {
        return Runtime.getRuntime().availableProcessors() + " x " + CpuInfo.processor();
    }

    /** A value that depends on the measured loops, which keeps the compiler from removing them. */
    public long sink() {
        return sink;
    }

    @Override
    public void close() {
        workers.close();
        arena.close();
    }
}
