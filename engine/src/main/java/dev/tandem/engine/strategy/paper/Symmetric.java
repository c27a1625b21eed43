package dev.tandem.engine.strategy.paper;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.AllHost;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Deviations;
import java.util.ArrayList;
import java.util.List;

/**
 * {@code symmetric} (NEO §3.1, strawman 2; FastDecode): all decode attention on the CPU, with the decodes split evenly
 * into two sub-batches that overlap. Prefills have steps of their own, and their KV moves to the host.
 */
public record Symmetric(Budget budget, Deviations deviations) implements Policy {
    /** Prompts are whole: they have steps of their own. */
    public Symmetric {
        deviations = deviations.with(Deviation.CHUNKED_PREFILL, false);
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = AllHost.prefills(state, budget, deviations);
        if (!draft.rows(0).isEmpty()) {
            why.because(
                    "symmetric: %d rows of prefill in a step of their own",
                    draft.load(0).rows());
            return draft;
        }
        List<Sequence> zero = new ArrayList<>();
        List<Sequence> one = new ArrayList<>();
        long balance = 0;
        for (Sequence sequence : AllHost.decodes(draft)) {
            // the sub-batch with less context takes the next token, so that attention is even
            (balance <= 0 ? zero : one).add(sequence);
            int context = draft.state().context(sequence);
            balance += balance <= 0 ? context : -context;
        }
        AllHost.add(draft, 0, zero);
        AllHost.add(draft, 1, one);
        draft.shape(one.isEmpty() ? Shape.OFFLOAD : Shape.PIPELINE);
        why.because(
                "symmetric: the CPU computes attention for sub-batches of %d and %d tokens", zero.size(), one.size());
        return draft;
    }
}
