package dev.tandem.cpu;

import dev.tandem.engine.cost.Component;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult.LayerProgress;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The in-flight tokens of async overlap (APEX §3.3). An in-flight token leaves the batch after each layer's
 * pre-projection and waits at that layer for its attention, which the CPU computes. It rejoins the batch for the
 * post-projection once the attention is back and the layer has a free slot, in this step or a later one.
 *
 * <pre>
 * list     a token is in it from            until
 * inBatch  admit or rejoin                  leaveBatch; takeTrace after the last layer
 * waiting  leaveBatch                       rejoin or park
 * </pre>
 *
 * <p>Owned by: engine thread.
 */
final class InFlightTokens {
    private final DecoderForward forward;
    private final Readiness readiness;
    private final StepClock clock;
    /** By sequence: tokens that wait at a layer, in the order in which their attention was issued. */
    private final Map<Long, InFlightToken> waiting = new LinkedHashMap<>();
    /** Tokens that are rows of the last sub-batch, in the order of these rows. */
    private final List<InFlightToken> inBatch = new ArrayList<>();

    private List<LayerProgress> trace = new ArrayList<>();

    InFlightTokens(DecoderForward forward, Readiness readiness, StepClock clock) {
        this.forward = forward;
        this.readiness = readiness;
        this.clock = clock;
    }

    int count() {
        return waiting.size();
    }

    /** Removes the waiting tokens of these sequences, ignores sequences without one, and returns those removed. */
    List<Long> park(List<Long> sequences) {
        List<Long> parked = new ArrayList<>();
        for (long sequence : sequences) {
            if (waiting.remove(sequence) != null) {
                parked.add(sequence);
            }
        }
        return parked;
    }

    /** Makes each admission an in-flight token and a row of the batch, before layer 0. */
    void admit(List<Admission> admissions, Activations a) {
        for (Admission admission : admissions) {
            InFlightToken token = new InFlightToken(admission, a);
            a.rejoin(token);
            inBatch.add(token);
        }
    }

    /** Takes all in-flight tokens out of the batch with their q, k and v of {@code layer}; computes their attention. */
    void leaveBatch(long step, int layer, Activations a) {
        for (int i = 0; i < inBatch.size(); i++) {
            InFlightToken token = inBatch.get(i);
            a.copyOut(a.ownRows + i, token);
            token.layer = layer;
            waiting.put(token.sequence(), token);
            readiness.issued(step, layer, token.sequence());
        }
        clock.measure(Component.CPU_ATTENTION, () -> forward.attention(inBatch));
        a.removeInFlight();
        inBatch.clear();
    }

    /**
     * Makes tokens whose attention of {@code layer} is back rows of the batch again: first all that the plan resumes,
     * then as many others as the layer has slots.
     */
    void rejoin(StepPlan plan, int layer, Activations a) {
        if (waiting.isEmpty()) {
            return;
        }
        List<Long> atLayer = new ArrayList<>();
        for (InFlightToken token : waiting.values()) {
            if (token.layer == layer && plan.resume().contains(token.sequence())) {
                inBatch.add(token);
            } else if (token.layer == layer) {
                atLayer.add(token.sequence());
            }
        }
        int slots = inBatch.size() + plan.slotsPerLayer();
        for (long sequence : readiness.ready(plan.step(), layer, atLayer)) {
            if (inBatch.size() < slots) {
                inBatch.add(waiting.get(sequence));
            }
        }
        for (InFlightToken token : inBatch) {
            waiting.remove(token.sequence());
            a.rejoin(token);
            trace.add(new LayerProgress(layer, token.sequence()));
        }
    }

    /**
     * Returns what {@link #rejoin} did since the last call, and forgets the tokens that are still in the batch: after
     * the last layer they have been sampled and are done.
     */
    List<LayerProgress> takeTrace() {
        inBatch.clear();
        List<LayerProgress> taken = trace;
        trace = new ArrayList<>();
        return taken;
    }
}
