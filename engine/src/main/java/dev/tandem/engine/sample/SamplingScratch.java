package dev.tandem.engine.sample;

import java.util.Arrays;

/**
 * Reused buffers for sampling one row at a time.
 *
 * <p>Owned by: the thread that samples.
 */
public final class SamplingScratch {
    private float[] weights = new float[0];
    private float[] copy = new float[0];
    private long[] keys = new long[0];
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

    double logSumExp() {
        return logSumExp;
    }

    void logSumExp(double value) {
        logSumExp = value;
    }

    /**
     * Ids by descending weight, ties by ascending id; weights are not negative. Only those that can matter are
     * sorted: with {@code most} > 0 the best {@code most}, else all of weight above 0.
     */
    int[] sortedByWeight(float[] values, int size, int most) {
        if (most > 0) {
            return largest(values, 0, size, most);
        }
        if (keys.length < size) {
            keys = new long[size];
        }
        int count = 0;
        for (int i = 0; i < size; i++) {
            if (values[i] > 0) {
                keys[count++] = key(values[i], i);
            }
        }
        Arrays.sort(keys, 0, count);
        int[] order = new int[count];
        for (int i = 0; i < count; i++) {
            order[i] = (int) keys[i];
        }
        return order;
    }

    /** Ids of the {@code most} largest values, best first, ties by ascending id: a bounded heap of the best so far. */
    int[] largest(float[] values, int offset, int size, int most) {
        int capacity = Math.min(most, size);
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
        int bits = Float.floatToIntBits(value);
        int ascending = bits ^ ((bits >> 31) & Integer.MAX_VALUE);
        return ((long) ~ascending << 32) | id;
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
