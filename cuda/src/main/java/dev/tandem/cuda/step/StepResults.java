package dev.tandem.cuda.step;

import dev.tandem.cuda.hostattention.HostTokenTracker;
import dev.tandem.cuda.sampling.PromptScores;
import dev.tandem.cuda.sampling.SampleReport;
import dev.tandem.cuda.step.StepLauncher.Launched;
import dev.tandem.engine.sampling.SamplingException;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.CpuTasks;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Assembles the results of steps that have ended: sampled tokens, and host tokens that were paused or lost.
 *
 * <p>Owned by: engine thread.
 */
final class StepResults {
    private final SampleReport report;
    private final PromptScores scores;
    /** Empty without attention threads. */
    private final Optional<HostTokenTracker> hostTokens;

    StepResults(SampleReport report, PromptScores scores, Optional<HostTokenTracker> hostTokens) {
        this.report = report;
        this.scores = scores;
        this.hostTokens = hostTokens;
    }

    /**
     * The result of a step.
     *
     * @param step its number
     * @param slot in the clock's ring, to which it has reported
     * @param hostWait nanoseconds that it waited for host tokens
     */
    StepResult of(long step, Launched launched, int slot, long hostWait) {
        List<StepResult.Sampled> sampled = new ArrayList<>(launched.sampled().size() + launched.slots());
        List<Long> paused = new ArrayList<>();
        List<StepResult.Lost> lost = new ArrayList<>();
        hostTokens.ifPresent(tokens -> {
            MemorySegment returned = report.of(slot).asSlice(4L * (launched.firstSlotSample() + launched.slots()));
            tokens.finishLastLayer(
                    returned,
                    launched.slots(),
                    launched.firstSlotSample(),
                    (sequence, sampler, draw, row) ->
                            report.take(sequence, sampler, draw, slot, row, AttentionSite.CPU_FROM_HOST, sampled, lost),
                    paused);
            tokens.collectReleased(launched.sameLayer(), paused, lost);
            tokens.endSameLayer(launched.sameLayer());
        });
        launched.scored().forEach(scored -> read(scored, lost));
        for (int i = 0; i < launched.sampled().size(); i++) {
            Chunk chunk = launched.sampled().get(i);
            boolean isLost = lost.stream().anyMatch(token -> token.sequence() == chunk.sequence());
            if (!isLost && !launched.skipped().contains(chunk.sequence())) {
                report.take(
                        chunk.sequence(),
                        chunk.sampler().orElseThrow(),
                        launched.draws().get(i),
                        slot,
                        i,
                        chunk.site(),
                        sampled,
                        lost);
            }
        }
        StepTimes times = hostTokens.map(tokens -> tokens.times(hostWait)).orElse(StepTimes.NONE);
        CpuTasks tasks = hostTokens.map(HostTokenTracker::tasks).orElse(CpuTasks.NONE);
        return new StepResult(step, sampled, List.of(), paused, lost, times, tasks);
    }

    /** Reads the scores of a chunk; when its logits are not finite, its sequence is lost. */
    private void read(PromptScores.Scored scored, List<StepResult.Lost> lost) {
        try {
            scores.read(scored);
        } catch (SamplingException e) {
            String message = String.valueOf(e.getMessage());
            lost.add(new StepResult.Lost(scored.chunk().sequence(), StepResult.Cause.SAMPLING, message, false));
        }
    }
}
