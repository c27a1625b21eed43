package dev.tandem.cuda.hostattention;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * The executor's side of rows that the CPU attends to: who enters, who has gone through all layers, whom the workers
 * let go of or lost.
 *
 * <p>Owned by: engine thread.
 */
public final class HostTokenTracker implements AutoCloseable {
    /** The workers are well, so their tasks have not reached them. */
    public static final String IN_VAIN =
            "a step waited in vain for its rows' attention on the CPU, for longer than twice --host-watchdog";

    static final String STEP_HANGS = "a step did not end, so nothing carries rows between GPU and CPU any more";

    private final HostAttentionQueues queues;
    private final HostAttentionWorkers workers;
    private final List<HostToken> passing = new ArrayList<>();
    private long busyBefore;
    /** Why a step was told not to wait: its host tokens have no results. */
    private Optional<String> gaveUp = Optional.empty();

    /** Takes a sampled row's token, or notes that its sequence is lost. */
    public interface Chooser {
        void choose(long sequence, TokenSampler sampler, Optional<TokenSampler.Draw> draw, int sampledRow);
    }

    public HostTokenTracker(HostAttentionQueues queues, HostAttentionWorkers workers) {
        this.queues = queues;
        this.workers = workers;
    }

    public HostAttentionQueues queues() {
        return queues;
    }

    public HostAttentionWorkers workers() {
        return workers;
    }

    public List<HostToken> admit(List<Admission> admissions) {
        List<HostToken> admitted = new ArrayList<>(admissions.size());
        for (Admission admission : admissions) {
            admitted.add(queues.admit(admission));
        }
        if (!admitted.isEmpty()) {
            workers.wake();
        }
        return admitted;
    }

    /** A row that passes all layers within the step at hand. */
    public HostToken pass(Admission row) {
        HostToken hostToken = queues.pass(row);
        if (passing.isEmpty()) {
            workers.wake();
        }
        passing.add(hostToken);
        return hostToken;
    }

    /** While a step waits: it does no longer when a worker is gone or stalled. */
    public void watch() {
        if (gaveUp.isEmpty()) {
            trouble().ifPresent(trouble -> queues.giveUp());
        }
    }

    private Optional<String> trouble() {
        if (gaveUp.isEmpty()) {
            gaveUp = workers.check()
                    .or(() -> queues.hasGivenUp()
                            ? Optional.of(queues.transferGaveUp() ? STEP_HANGS : IN_VAIN)
                            : Optional.empty());
        }
        return gaveUp;
    }

    /** The step is over, and so are the rows that passed in it, unless {@link #collectReleased} has named them. */
    public void passed() {
        passing.stream()
                .filter(hostToken -> queues.hostToken(hostToken.index) == hostToken)
                .forEach(queues::end);
        passing.clear();
    }

    /**
     * Rows that went through the last layer.
     *
     * @param returned [slots] flights or -1, as the step reported
     * @param firstSample sampled row of the first slot
     */
    public void finishLastLayer(MemorySegment returned, int slots, int firstSample, Chooser chooser, List<Long> parked) {
        for (int slot = 0; slot < slots; slot++) {
            int index = returned.getAtIndex(JAVA_INT, slot);
            HostToken hostToken = index < 0 ? null : queues.hostToken(index);
            if (hostToken == null) {
                continue; // an empty slot, or a row that was lost on its way
            }
            if (hostToken.parked) {
                parked.add(hostToken.sequence());
            } else {
                chooser.choose(hostToken.sequence(), hostToken.admission.sampler(), hostToken.draw, firstSample + slot);
            }
            queues.end(hostToken);
        }
    }

    /**
     * What the workers let go of, or lost. When one of them is gone or stalled, every in-flight token is lost, and so
     * is every one that enters later: a plan that was made before anybody knew may have some.
     */
    public void collectReleased(List<Long> parked, List<StepResult.Lost> rows) {
        for (HostToken hostToken = queues.pollReleased(); hostToken != null; hostToken = queues.pollReleased()) {
            parked.add(hostToken.sequence());
            queues.end(hostToken);
        }
        for (HostAttentionQueues.Failure failure = queues.pollFailure();
                failure != null;
                failure = queues.pollFailure()) {
            if (queues.hostToken(failure.hostToken().index) != failure.hostToken()) {
                continue; // another part of it failed before
            }
            rows.add(new StepResult.Lost(
                    failure.hostToken().sequence(),
                    StepResult.Cause.HOST_ATTENTION,
                    "its attention on the CPU failed: " + failure.cause(),
                    false));
            queues.end(failure.hostToken());
        }
        if (!queues.hasTokens()) {
            return;
        }
        trouble().ifPresent(trouble -> {
            queues.giveUp();
            List<HostToken> all = List.copyOf(queues.all());
            all.forEach(queues::end);
            Set<HostToken> held = workers.held(); // after their end: whoever takes one up now sees that it is lost
            all.forEach(hostToken -> rows.add(new StepResult.Lost(
                    hostToken.sequence(), StepResult.Cause.HOST_ATTENTION, trouble, held.contains(hostToken))));
        });
    }

    /**
     * How long the workers were busy since the last call. The GPU's parts of a step are not timed: that would lengthen
     * the step.
     */
    public StepTimes times() {
        long busy = workers.busyNanos();
        long since = busy - busyBefore;
        busyBefore = busy;
        return new StepTimes(0, 0, 0, since, 0, 0, 0);
    }

    /** Nobody waits for the CPU, or carries anything to it, from now on: the GPU's kernels that do end. */
    public void abandon() {
        queues.giveUp();
    }

    @Override
    public void close() {
        workers.close();
    }
}
