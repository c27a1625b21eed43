package dev.tandem.cpu.simd;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/** Loops that only read memory, or only multiply and add on registers; bandwidth probes run them. */
public final class BandwidthKernels {
    private static final int CHAINS = 10;
    private static final long PAGE = 4096;
    /** Bytes that are read between two prefetches. */
    private static final long PIECE = 1024;
    /** How many bytes ahead of the reads {@link #readPrefetched} prefetches. */
    private static final long AHEAD = 8192;

    private BandwidthKernels() {}

    /** Reads {@code bytes}, a multiple of 512, from the beginning to the end; the result depends on every byte. */
    public static int read(long address, long bytes) {
        IntVector a = IntVector.zero(Lanes.I);
        IntVector b = a;
        IntVector c = a;
        IntVector d = a;
        int vector = 4 * Lanes.COUNT;
        for (long at = address; at < address + bytes; at += 4L * vector) {
            a = a.add(Lanes.loadInts(at));
            b = b.add(Lanes.loadInts(at + vector));
            c = c.add(Lanes.loadInts(at + 2L * vector));
            d = d.add(Lanes.loadInts(at + 3L * vector));
        }
        return a.add(b).add(c.add(d)).reduceLanes(VectorOperators.ADD);
    }

    /** Reads {@code bytes}, a multiple of 512, and prefetches what lies {@value #AHEAD} bytes ahead. */
    public static int readPrefetched(long address, long bytes) {
        int sum = 0;
        for (long at = 0; at < bytes; at += PIECE) {
            Prefetch.lines(address + at + AHEAD, address + at + AHEAD + PIECE, 0);
            sum += read(address + at, Math.min(PIECE, bytes - at));
        }
        return sum;
    }

    /** Reads {@code bytes}, a multiple of 16 KiB, in four pages side by side, which suits the hardware prefetchers. */
    public static int readStreams(long address, long bytes) {
        IntVector a = IntVector.zero(Lanes.I);
        IntVector b = a;
        IntVector c = a;
        IntVector d = a;
        int vector = 4 * Lanes.COUNT;
        for (long pages = address; pages < address + bytes; pages += 4 * PAGE) {
            for (long at = pages; at < pages + PAGE; at += vector) {
                a = a.add(Lanes.loadInts(at));
                b = b.add(Lanes.loadInts(at + PAGE));
                c = c.add(Lanes.loadInts(at + 2 * PAGE));
                d = d.add(Lanes.loadInts(at + 3 * PAGE));
            }
        }
        return a.add(b).add(c.add(d)).reduceLanes(VectorOperators.ADD);
    }

    /** Operations per round of {@link #multiplyAdd}, two per multiply-add. */
    public static int flopsPerRound() {
        return 2 * CHAINS * Lanes.COUNT;
    }

    /** Runs ten independent chains of multiply-adds; two units with a latency of four cycles need at least eight. */
    public static float multiplyAdd(int rounds) {
        FloatVector m = FloatVector.broadcast(Lanes.F, 0.999f);
        FloatVector p = FloatVector.broadcast(Lanes.F, 0.001f);
        FloatVector a = m;
        FloatVector b = m;
        FloatVector c = m;
        FloatVector d = m;
        FloatVector e = m;
        FloatVector f = m;
        FloatVector g = m;
        FloatVector h = m;
        FloatVector i = m;
        FloatVector j = m;
        for (int round = 0; round < rounds; round++) {
            a = a.fma(m, p);
            b = b.fma(m, p);
            c = c.fma(m, p);
            d = d.fma(m, p);
            e = e.fma(m, p);
            f = f.fma(m, p);
            g = g.fma(m, p);
            h = h.fma(m, p);
            i = i.fma(m, p);
            j = j.fma(m, p);
        }
        return a.add(b).add(c.add(d)).add(e.add(f)).add(g.add(h)).add(i.add(j)).reduceLanes(VectorOperators.ADD);
    }
}
