package dev.tandem.cuda.step;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceWait;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.engine.executor.ExecutorException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Times steps on the GPU: when they begin and end, and how long the GPU is busy in them and idle between them. A pause
 * within a step, until the host has the draws and bitmasks to sample it, counts as idle.
 *
 * <p>Owned by: engine thread.
 */
public final class GpuClock implements AutoCloseable {
    /** Steps whose events are kept: those outstanding and the one before. */
    public static final int RING = 4;
    /** Max gap between steps that counts as idle GPU time; after a longer one the engine had nothing to do. */
    private static final float REST_MILLIS = 20;

    private final DeviceWait waits;
    private final Event[] begins = new Event[RING];
    private final Event[] ends = new Event[RING];
    private final Event[] pauses = new Event[RING];
    private final Event[] resumes = new Event[RING];
    private final boolean[] paused = new boolean[RING];
    private long steps;
    private long waitedFor;
    /** Written by the engine thread alone. */
    private volatile Totals totals = new Totals(0, 0);

    public GpuClock(Device device) {
        waits = device.waits();
        for (int i = 0; i < RING; i++) {
            begins[i] = device.event();
            ends[i] = device.event();
            pauses[i] = device.event();
            resumes[i] = device.event();
        }
    }

    /** Records a step's begin; returns its slot in the ring. */
    public int begin(Stream stream) {
        int slot = (int) (steps++ % RING);
        stream.record(begins[slot]);
        paused[slot] = false;
        return slot;
    }

    /** Records that the GPU has nothing to do in the step until {@link #resume}. */
    public void pause(Stream stream, int slot) {
        stream.record(pauses[slot]);
        paused[slot] = true;
    }

    /** Records that the step goes on. */
    public void resume(Stream stream, int slot) {
        stream.record(resumes[slot]);
    }

    /** Records a step's end. */
    public void end(Stream stream, int slot) {
        stream.record(ends[slot]);
    }

    /**
     * Waits until the step has run. Returns its milliseconds.
     *
     * @param step its number, for messages
     * @param limitNanos how long it may take from now on
     * @param meanwhile runs repeatedly during the wait
     * @throws ExecutorException when it does not end in time
     */
    public float await(int slot, long step, long limitNanos, Runnable meanwhile) {
        if (!waits.until(ends[slot]::reached, limitNanos, meanwhile)) {
            throw new ExecutorException(String.format(
                    Locale.ROOT,
                    "the GPU did not finish step %d within %.1f s: it hangs. Look for Xid lines in the kernel "
                            + "log (dmesg), then restart the server",
                    step,
                    limitNanos / 1e9));
        }
        float millis = ends[slot].millisecondsSince(begins[slot]);
        float pause = paused[slot] ? resumes[slot].millisecondsSince(pauses[slot]) : 0;
        float idle = pause + (waitedFor++ > 0 ? idleBefore(slot) : 0);
        Totals before = totals;
        totals = new Totals(before.busy() + millis - pause, before.idle() + idle);
        return millis;
    }

    private float idleBefore(int slot) {
        float gap = begins[slot].millisecondsSince(ends[(slot + RING - 1) % RING]);
        return gap < REST_MILLIS ? Math.max(0, gap) : 0;
    }

    /**
     * GPU time since the start, in milliseconds.
     *
     * @param busy inside steps, without pauses
     * @param idle in pauses, and between steps that followed one another while the engine had work
     */
    public record Totals(double busy, double idle) {}

    /** GPU time since the start; any thread may ask. */
    public Totals totals() {
        return totals;
    }

    @Override
    public void close() {
        List<AutoCloseable> all = new ArrayList<>(List.of(begins));
        all.addAll(List.of(ends));
        all.addAll(List.of(pauses));
        all.addAll(List.of(resumes));
        Resources.closeAll(all);
    }
}
