package dev.tandem.cuda.step;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.step.StepLauncher.Launched;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.observe.Timeline;
import java.lang.foreign.MemorySegment;

/**
 * Reads the times of a step's layers and of its waits for host tokens, by the GPU's clock. It records the GPU's lanes
 * of the timeline: steps, layers of steps with slots, and these waits.
 *
 * <p>Owned by: engine thread.
 */
public final class StepTrace implements AutoCloseable {
    private final Clock time;
    private final int layers;
    private final Timeline.Lane steps;
    private final Timeline.Lane layerTimes;
    private final Timeline.Lane waits;
    /** Per step of the clock's ring: [layers + 1] times, then [2 sub-batches, layers, 2] of waits for host tokens. */
    private final PinnedBuffer stamps;

    public StepTrace(Device device, Timeline timeline, Clock time, int layers) {
        this.time = time;
        this.layers = layers;
        steps = timeline.lane("GPU steps");
        layerTimes = timeline.lane("GPU layers");
        waits = timeline.lane("GPU waits");
        stamps = device.pinned(8L * GpuClock.RING * (5 * layers + 1), "times of layers");
    }

    /** Address to which the step in a slot of the clock's ring writes its times. */
    public long stamps(int slot) {
        return times(slot).address();
    }

    private MemorySegment times(int slot) {
        long bytes = stamps.memory().byteSize() / GpuClock.RING;
        return stamps.memory().asSlice(bytes * slot, bytes);
    }

    /**
     * Records a step that has just ended.
     *
     * @param millis that the GPU took
     */
    public void record(int slot, long step, Launched launched, float millis) {
        long now = time.nanos();
        long start = now - (long) (millis * 1e6);
        steps.add(Timeline.Kind.GPU_STEP, start, now, step);
        MemorySegment times = times(slot);
        long shift = now - times.getAtIndex(JAVA_LONG, layers);
        for (int layer = 0; launched.slots() > 0 && layer < layers; layer++) {
            layerTimes.add(
                    Timeline.Kind.GPU_LAYER,
                    times.getAtIndex(JAVA_LONG, layer) + shift,
                    times.getAtIndex(JAVA_LONG, layer + 1) + shift,
                    layer);
        }
        forEachWait(
                times,
                launched,
                millis,
                (layer, pass, began, ended) -> waits.add(
                        Timeline.Kind.GPU_WAIT, began + shift, ended + shift, Timeline.layerAndSequence(layer, pass)));
    }

    /**
     * Nanoseconds in which a step that has just ended waited for its host tokens and copied their attention. In-flight
     * tokens that do not finish within the step are not waited for.
     *
     * @param millis that the GPU took
     */
    public long hostWait(int slot, Launched launched, float millis) {
        long[] sum = new long[1];
        forEachWait(times(slot), launched, millis, (layer, pass, began, ended) -> sum[0] += ended - began);
        return sum[0];
    }

    /** A wait for the host tokens of a sub-batch at a layer, from and to nanoseconds of the GPU's clock. */
    private interface WaitConsumer {
        void accept(int layer, int pass, long began, long ended);
    }

    /**
     * Visits a step's waits in the order in which the sub-batches take turns.
     *
     * @param millis that the GPU took
     */
    private void forEachWait(MemorySegment times, Launched launched, float millis, WaitConsumer each) {
        long start = times.getAtIndex(JAVA_LONG, layers) - (long) (millis * 1e6);
        for (int turn = 0; turn < launched.passes() * layers; turn++) {
            int pass = turn % launched.passes();
            int layer = turn / launched.passes();
            long at = layers + 1 + 2L * (pass * layers + layer);
            long began = times.getAtIndex(JAVA_LONG, at);
            long ended = times.getAtIndex(JAVA_LONG, at + 1); // read by another thread block, so it may be earlier
            if (began >= start) { // else of an earlier step: this sub-batch has no host tokens
                each.accept(layer, pass, began, Math.max(began, ended));
            }
        }
    }

    @Override
    public void close() {
        stamps.close();
    }
}
