package dev.tandem.engine.strategy;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/**
 * The two-batch schedule of NEO §3.2, steps 1 to 5. Batch 0: prefills, GPU decodes and a few CPU decodes; batch 1: most
 * CPU decodes. Kept for every CPU row that is added: {@code T_ca1 <= T_l0} and {@code T_ca0 <= T_l1 + T_ga0}, and what
 * handing over costs ({@link StepPredictor#hides}); but not for rows that the GPU may wait for.
 *
 * @param chunked whether prompts may be cut; the paper's are whole
 * @param hidesAll whether every CPU row hides, as the paper's do; else the GPU waits for some more where that raises
 *     the step's rate
 * @param gpuKv whether KV may stay on the GPU; without, it is FastDecode+ (NEO §5.1)
 */
public record Pipeline(
        Budget budget, StepPredictor predictor, TierRules rules, boolean chunked, boolean hidesAll, boolean gpuKv) {
    /** Share of a linear stage's time from which the CPU is not idle behind it. */
    private static final double BUSY = 0.5;
    /**
     * Prompts that may be cut leave one row in so many of a step to host tokens: behind nothing do so many hide as
     * behind a step full of prompts.
     */
    private static final int HOST_SHARE = 8;

    /** The step as NEO's steps 1 to 5 make it. */
    public StepDraft draft(SchedulerState state) {
        return draft(state, List.of());
    }

    /** Counts a step that was made of a draft, whichever policy made the draft. */
    public void completed(StepDraft draft) {
        rules.completed(draft);
    }

    /** As if all in-flight tokens had returned: to compare with, not to carry out. */
    public StepDraft draftAsIfReturned(SchedulerState state) {
        return draft(state, state.inFlight());
    }

    /** @param more rows that the CPU may read */
    private StepDraft draft(SchedulerState state, Collection<Sequence> more) {
        StepDraft draft =
                gpuKv ? gpuSide(state, state.host().size() + more.size()) : AllHost.prefills(state, budget, chunked);
        List<Sequence> queue = HostTier.decodable(draft);
        queue.addAll(more);
        if (gpuKv) { // FastDecode+ keeps the order of arrival
            queue.sort(HostTier.WAITED_LONGEST);
        }
        List<Sequence> left = cpuDecodes(draft, queue);
        reducePrefills(draft);
        if (!hidesAll) {
            waitFor(draft, left);
        }
        boolean cpu = draft.load(0).cpuRows() + draft.load(1).cpuRows() > 0;
        draft.shape(cpu ? Shape.PIPELINE : Shape.GPU_ONLY);
        return draft;
    }

    /**
     * Steps 1 to 3.
     *
     * @param hostTokens that the CPU might read
     */
    private StepDraft gpuSide(SchedulerState state, int hostTokens) {
        StepDraft draft = new StepDraft(state, budget);
        GpuTier.Kept kept = GpuTier.decodes(draft, s -> draft.fitsHost(s) && rules.mayLiveOnHost(draft, s));
        if (!kept.evicted()) {
            rules.rotate(draft);
            GpuTier.swapIn(draft);
        }
        Prefills prefills = new Prefills(chunked, true, sequence -> rules.mayLiveOnHost(draft, sequence));
        int all = budget.maxBatchTokens();
        int maxRows = chunked ? all - Math.min(hostTokens, all / HOST_SHARE) : all;
        prefills.resume(draft, kept.unfinished(), maxRows);
        prefills.start(
                draft,
                draft.gpuSequences() + state.host().size() + state.inFlight().size(),
                0,
                maxRows);
        return draft;
    }

    /**
     * Step 4. A row goes to batch 1 while its attention there hides behind batch 0's linear stage, else to batch 0
     * while it hides there, else it waits for the next iteration. When nothing else would run, one row goes regardless:
     * otherwise a host without a GPU side would never begin.
     *
     * @return those that wait
     */
    private List<Sequence> cpuDecodes(StepDraft draft, List<Sequence> queue) {
        Load zero = draft.load(0);
        Load one = draft.load(1);
        List<Sequence> left = new ArrayList<>();
        boolean room = true;
        for (Sequence sequence : queue) {
            if (!room) {
                left.add(sequence);
            } else if (!HostTier.canGrow(draft, sequence)) {
                continue;
            } else if (predictor.hidesInOne(zero, one, sequence.length())) {
                draft.add(1, sequence, 1, AttentionSite.CPU_FROM_HOST);
            } else if (zero.rows() == 0 || predictor.hidesInZero(zero, one, sequence.length())) {
                draft.add(0, sequence, 1, AttentionSite.CPU_FROM_HOST);
            } else {
                left.add(sequence);
                room = predictor.hidesInOne(zero, one, 1) || predictor.hidesInZero(zero, one, 1);
            }
        }
        return left;
    }

    /**
     * Not in the paper: rows beside those that hide, to either batch, while each raises the requests per second. Where
     * few rows hide, what the GPU waits for one more costs less than half a step does.
     */
    private void waitFor(StepDraft draft, List<Sequence> left) {
        Load zero = draft.load(0);
        Load one = draft.load(1);
        if (zero.cpuRows() + one.cpuRows() == 0) {
            return;
        }
        double rate = (zero.requests() + one.requests()) / predictor.pipeline(zero, one);
        for (Sequence sequence : left) {
            if (!HostTier.canGrow(draft, sequence)) {
                continue;
            }
            double inZero = predictor.pipelineWith(zero, one, 0, sequence.length());
            double inOne = predictor.pipelineWith(zero, one, 1, sequence.length());
            double raised = (zero.requests() + one.requests() + 1) / Math.min(inZero, inOne);
            if (raised <= rate) {
                return;
            }
            draft.add(inOne <= inZero ? 1 : 0, sequence, 1, AttentionSite.CPU_FROM_HOST);
            rate = raised;
        }
    }

    /**
     * Step 5: prefills whose KV would leave for the host are put off as long as the inequalities hold without them,
     * unless that left the CPU idle for want of requests: on an empty host they would hold for ever.
     */
    private void reducePrefills(StepDraft draft) {
        for (int index : HostTier.prefillOffload(draft)) {
            Row row = draft.rows(0).get(index);
            if (rules.isUrgent(row.sequence(), draft.state().now())
                    || draft.rows(0).size() + draft.rows(1).size() == 1) {
                continue;
            }
            Load zero = draft.load(0);
            zero.add(row, -1);
            boolean hidden = predictor.hides(zero, draft.load(1));
            boolean busy = predictor.cpuAttention(draft.load(1)) >= BUSY * predictor.linear(zero);
            zero.add(row, 1);
            if (!hidden || !busy) {
                return;
            }
            draft.removePrefillOffload(index);
        }
    }
}
