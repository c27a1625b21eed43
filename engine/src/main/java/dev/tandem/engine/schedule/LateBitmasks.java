package dev.tandem.engine.schedule;

import dev.tandem.engine.request.BitmaskTiming;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * Leaves decodes out of a step whose grammar's bitmask is late, so that the others do not wait for it.
 *
 * <p>Such a sequence is computed once its bitmask is ready. If that was so as soon as its last token was known, later
 * steps compute it ahead of its bitmasks again. The tokens do not change: a bitmask depends on its own sequence alone.
 *
 * <p>Owned by: engine thread.
 */
final class LateBitmasks {
    private LateBitmasks() {}

    /**
     * The sequences that the draft computes and the step is to leave out. Where they are all that the draft computes,
     * none is: then nobody else waits.
     */
    static Set<Sequence> leftOut(StepDraft draft) {
        List<Sequence> late = new ArrayList<>();
        for (int batch = 0; batch < 2; batch++) {
            for (StepDraft.Row row : draft.rows(batch)) {
                boolean decodes = row.rows() == 1 && row.sequence().remaining() == 1;
                if (decodes && row.site() != AttentionSite.GPU_PREFILL_OFFLOAD && isLate(row.sequence())) {
                    late.add(row.sequence());
                }
            }
        }
        boolean alone = late.size() == draft.rows(0).size() + draft.rows(1).size()
                && draft.admissions().isEmpty()
                && draft.state().inFlight().isEmpty();
        return alone ? Set.of() : Set.copyOf(late);
    }

    private static boolean isLate(Sequence sequence) {
        BitmaskTiming timing = sequence.bitmaskTiming();
        if (timing == BitmaskTiming.IN_TIME) {
            return false;
        }
        if (sequence.known() < sequence.length()) {
            return true; // its bitmask depends on a token that the running step samples
        }
        boolean ready = sequence.sampler().awaitReady(0);
        sequence.bitmaskTiming(
                !ready
                        ? BitmaskTiming.PENDING
                        : timing == BitmaskTiming.PENDING ? BitmaskTiming.LATE : BitmaskTiming.IN_TIME);
        return !ready;
    }
}
