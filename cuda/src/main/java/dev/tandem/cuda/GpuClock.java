package dev.tandem.cuda;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Stream;

/**
 * When steps begin and end on the GPU, and how long it worked in them and waited between them.
 *
 * <p>Owned by: engine thread.
 */
final class GpuClock implements AutoCloseable {
    /** Steps whose events are kept: those outstanding and the one before. */
    static final int RING = 4;
    /** A fraction of a millisecond. */
    private static final int SPINS = 256;
    /** A longer gap is the engine at rest. */
    private static final float REST_MILLIS = 20;

    private final Event[] begins = new Event[RING];
    private final Event[] ends = new Event[RING];
    private long steps;
    private long awaited;
    private volatile double busyMillis;
    private volatile double idleMillis;

    GpuClock(Device device) {
        for (int i = 0; i < RING; i++) {
            begins[i] = device.event();
            ends[i] = device.event();
        }
    }

    /** Marks a step's begin; returns its slot. */
    int begin(Stream stream) {
        int slot = (int) (steps++ % RING);
        stream.record(begins[slot]);
        return slot;
    }

    void end(Stream stream, int slot) {
        stream.record(ends[slot]);
    }

    /**
     * Spins until the step has run: nothing wakes the engine thread sooner. Returns its milliseconds.
     *
     * @param meanwhile is run now and then
     */
    float await(int slot, Runnable meanwhile) {
        for (int spins = 1; !ends[slot].reached(); spins++) {
            if (spins % SPINS == 0) {
                meanwhile.run();
            }
            Thread.onSpinWait();
        }
        float millis = ends[slot].millisecondsSince(begins[slot]);
        busyMillis += millis;
        if (awaited++ > 0) {
            float gap = begins[slot].millisecondsSince(ends[(slot + RING - 1) % RING]);
            idleMillis += gap < REST_MILLIS ? Math.max(0, gap) : 0;
        }
        return millis;
    }

    double busyMillis() {
        return busyMillis;
    }

    double idleMillis() {
        return idleMillis;
    }

    @Override
    public void close() {
        for (int i = 0; i < RING; i++) {
            begins[i].close();
            ends[i].close();
        }
    }
}
