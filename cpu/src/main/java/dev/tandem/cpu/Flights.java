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
 * In-flight tokens (async overlap, APEX §3.3; ready slots). A row alights after each pre-projection, stands at that
 * layer while the CPU computes its attention, and boards again for the post-projection when the result is there and a
 * slot is free, in this step or a later one.
 *
 * <p>Owned by: engine thread.
 */
final class InFlightTokens {
    private final LlamaForward forward;
    private final Readiness readiness;
    private final StepClock clock;
    /** Rows that stand at a layer, in the order in which their attention was issued. */
    private final Map<Long, InFlightToken> standing = new LinkedHashMap<>();
    /** Rows that ride with the last sub-batch, in the order of its rows. */
    private final List<InFlightToken> piggybacked = new ArrayList<>();

    private List<LayerProgress> trace = new ArrayList<>();

    InFlightTokens(LlamaForward forward, Readiness readiness, StepClock clock) {
        this.forward = forward;
        this.readiness = readiness;
        this.clock = clock;
    }

    int count() {
        return standing.size();
    }

    /** Lets go of rows; those that are not in flight are ignored. */
    List<Long> park(List<Long> sequences) {
        List<Long> parked = new ArrayList<>();
        for (long sequence : sequences) {
            if (standing.remove(sequence) != null) {
                parked.add(sequence);
            }
        }
        return parked;
    }

    /** New rows board before layer 0. */
    void admit(List<Admission> admissions, Activations a) {
        for (Admission admission : admissions) {
            InFlightToken row = new InFlightToken(admission, a);
            a.rejoin(row);
            piggybacked.add(row);
        }
    }

    /**
     * All riding rows leave the sub-batch with their q, k and v of {@code layer}, and the CPU begins their attention.
     */
    void leaveBatch(long step, int layer, Activations a) {
        for (int i = 0; i < piggybacked.size(); i++) {
            InFlightToken row = piggybacked.get(i);
            a.copyOut(a.ownRows + i, row);
            row.layer = layer;
            standing.put(row.sequence(), row);
            readiness.issued(step, layer, row.sequence());
        }
        clock.measure(Component.CPU_ATTENTION, () -> forward.attention(piggybacked));
        a.unload();
        piggybacked.clear();
    }

    /**
     * Rows whose attention of {@code layer} is there board: those that must finish in this step, then up to the slots.
     */
    void rejoin(StepPlan plan, int layer, Activations a) {
        if (standing.isEmpty()) {
            return;
        }
        List<Long> here = new ArrayList<>();
        for (InFlightToken row : standing.values()) {
            if (row.layer == layer && plan.resume().contains(row.sequence())) {
                piggybacked.add(row);
            } else if (row.layer == layer) {
                here.add(row.sequence());
            }
        }
        int slots = piggybacked.size() + plan.slotsPerLayer();
        for (long sequence : readiness.ready(plan.step(), layer, here)) {
            if (piggybacked.size() < slots) {
                piggybacked.add(standing.get(sequence));
            }
        }
        for (InFlightToken row : piggybacked) {
            standing.remove(row.sequence());
            a.rejoin(row);
            trace.add(new LayerProgress(layer, row.sequence()));
        }
    }

    /**
     * What {@link #rejoin} did since the last call. Rows that ride after the last layer have been sampled: they are
     * gone.
     */
    List<LayerProgress> takeTrace() {
        piggybacked.clear();
        List<LayerProgress> taken = trace;
        trace = new ArrayList<>();
        return taken;
    }
}
