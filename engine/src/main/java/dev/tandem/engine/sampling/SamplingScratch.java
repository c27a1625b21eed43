package dev.tandem.engine.sampling;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Reused buffers for sampling, one token at a time.
 *
 * <p>Owned by: the thread that samples.
 */
public final class SamplingScratch {
    /** Weights are added up in units of 2^-32. */
    private static final float UNITS = 0x1p32f;

    private static final int[] SHIFTS = {21, 10, 0};

    private float[] weights = new float[0];
    private float[] copy = new float[0];
    private int[] bitmask = new int[0];
    private final long[] totals = new long[1 << 11];
    private double logSumExp;

    float[] weights(int size) {
        if (weights.length < size) {
            weights = new float[size];
        }
        return weights;
    }

    float[] copyOf(float[] logits, int offset, int size) {
        if (copy.length < size) {
            copy = new float[size];
        }
        System.arraycopy(logits, offset, copy, 0, size);
        return copy;
    }

    /** Words for at least {@code vocabulary} bits. */
    int[] bitmask(int vocabulary) {
        int words = GrammarMatcher.words(vocabulary);
        if (bitmask.length < words) {
            bitmask = new int[words];
        }
        return bitmask;
    }

    double logSumExp() {
        return logSumExp;
    }

    void logSumExp(double value) {
        logSumExp = value;
    }

    /** Ascending keys are ascending values; -0 comes before +0. */
    static int key(float value) {
        int bits = Float.floatToRawIntBits(value);
        return bits ^ ((bits >> 31) & Integer.MAX_VALUE);
    }

    /** The key of the {@code count}-th largest value. */
    int topK(float[] values, int offset, int size, int count) {
        return threshold(values, offset, size, null, count);
    }

    /**
     * The key at which the mass of the weights over descending values reaches {@code mass}; the smallest key when it
     * never does.
     */
    int topP(float[] values, int offset, int size, float[] weights, double mass) {
        return threshold(values, offset, size, weights, mass * UNITS);
    }

    /**
     * The key at which the running total over descending keys reaches {@code wanted}: radix selection by histograms of
     * 11, 11 and 10 bits, as in the kernel. Sums of integers do not depend on their order.
     *
     * @param weights counted in units of 2^-32; null counts each value as 1
     */
    private int threshold(float[] values, int offset, int size, float @Nullable [] weights, double wanted) {
        int prefix = 0;
        double need = wanted;
        for (int shift : SHIFTS) {
            int bits = shift == 0 ? 10 : 11;
            Arrays.fill(totals, 0);
            for (int i = 0; i < size; i++) {
                int key = key(values[offset + i]) ^ Integer.MIN_VALUE; // unsigned
                if (shift + bits == 32 || key >>> shift + bits == prefix) {
                    totals[key >>> shift & (1 << bits) - 1] += weights == null ? 1 : (long) (weights[i] * UNITS);
                }
            }
            double before = 0;
            int chosen = 0;
            double beforeChosen = 0;
            for (int bin = (1 << bits) - 1; bin >= 0; bin--) {
                if (totals[bin] > 0) {
                    chosen = bin; // in the end the lowest that holds anything, where rounding leaves a rest
                    beforeChosen = before;
                    before += totals[bin];
                    if (before >= need) {
                        break;
                    }
                }
            }
            prefix = prefix << bits | chosen;
            need -= beforeChosen;
        }
        return prefix ^ Integer.MIN_VALUE;
    }

    /** Ids of the {@code max} largest values, best first, ties by ascending id: a bounded heap of the best so far. */
    int[] largest(float[] values, int offset, int size, int max) {
        int capacity = Math.min(max, size);
        long[] heap = new long[capacity];
        int count = 0;
        for (int i = 0; i < size && capacity > 0; i++) {
            long key = key(values[offset + i], i);
            if (count < capacity) {
                heap[count] = key;
                siftUp(heap, count++);
            } else if (key < heap[0]) {
                heap[0] = key;
                siftDown(heap, count);
            }
        }
        Arrays.sort(heap, 0, count);
        int[] ids = new int[count];
        for (int i = 0; i < count; i++) {
            ids[i] = (int) heap[i];
        }
        return ids;
    }

    /** Ascending keys are descending values, then ascending ids. */
    private static long key(float value, int id) {
        return ((long) ~key(value) << 32) | id;
    }

    private static void siftUp(long[] heap, int at) {
        int child = at;
        while (child > 0 && heap[(child - 1) / 2] < heap[child]) {
            swap(heap, child, (child - 1) / 2);
            child = (child - 1) / 2;
        }
    }

    private static void siftDown(long[] heap, int count) {
        int parent = 0;
        while (2 * parent + 1 < count) {
            int child = 2 * parent + 1;
            if (child + 1 < count && heap[child + 1] > heap[child]) {
                child++;
            }
            if (heap[parent] >= heap[child]) {
                return;
            }
            swap(heap, parent, child);
            parent = child;
        }
    }

    private static void swap(long[] heap, int a, int b) {
        long held = heap[a];
        heap[a] = heap[b];
        heap[b] = held;
    }
}
