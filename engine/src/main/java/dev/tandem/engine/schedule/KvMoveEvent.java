package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import java.util.Locale;
import java.util.Optional;
import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

/**
 * A move of a request's KV in a recording of the JDK (JFR): its start on a tier, a swap, or a drop.
 *
 * <p>Owned by: engine thread.
 */
@Name("dev.tandem.KvMove")
@Label("KV move")
@Description("The scheduler gave a request's KV a place, moved it to the other tier, or dropped it.")
@Category("Tandem")
@StackTrace(false)
@SuppressWarnings("UnusedVariable") // the recorder reads the fields
final class KvMoveEvent extends Event {
    @Label("Request")
    @Description("The request's id.")
    private String request = "";

    @Label("From")
    @Description("The tier where the KV was: gpu, host, or none for a request without KV.")
    private String from = "";

    @Label("To")
    @Description("The tier where the KV is from the step on: gpu, host, or none when it was dropped.")
    private String to = "";

    @Label("Tokens")
    @Description("Tokens whose KV was moved or dropped.")
    private int tokens;

    @Label("Step")
    @Description("Number of the step before which the KV moved.")
    private long step;

    @Label("Reason")
    @Description("Why the step was planned so.")
    private String reason = "";

    /** Writes the moves of a draft, if a recording wants them; the draft is about to be committed. */
    static void record(StepDraft draft, Decision decision) {
        if (!new KvMoveEvent().shouldCommit()) {
            return;
        }
        draft.drops().forEach(sequence -> write(draft, sequence, Optional.empty(), decision));
        draft.outs().forEach(sequence -> write(draft, sequence, Optional.of(KvTier.HOST), decision));
        draft.ins().forEach(sequence -> write(draft, sequence, Optional.of(KvTier.GPU), decision));
        for (int batch = 0; batch < 2; batch++) {
            for (StepDraft.Row row : draft.rows(batch)) {
                if (row.sequence().state() == RequestState.WAITING) {
                    write(draft, row.sequence(), Optional.of(row.site().tier()), decision);
                }
            }
        }
    }

    private static void write(StepDraft draft, Sequence sequence, Optional<KvTier> to, Decision decision) {
        boolean starts = sequence.state() == RequestState.WAITING;
        KvMoveEvent event = new KvMoveEvent();
        event.request = sequence.request().id();
        event.from = starts ? "none" : name(sequence.table().tier());
        event.to = to.map(KvMoveEvent::name).orElse("none");
        event.tokens = sequence.computed();
        event.step = draft.state().steps();
        event.reason = decision.reason();
        event.commit();
    }

    private static String name(KvTier tier) {
        return tier.name().toLowerCase(Locale.ROOT);
    }
}
