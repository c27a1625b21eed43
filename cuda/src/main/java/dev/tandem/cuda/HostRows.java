package dev.tandem.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.engine.batch.Admission;
import dev.tandem.engine.batch.StepResult;
import dev.tandem.engine.batch.StepTimes;
import dev.tandem.engine.sample.TokenSampler;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * The executor's side of rows that the CPU attends to: who enters, who has gone through all layers, whom the workers let go of or
 * lost.
 *
 * <p>Owned by: engine thread.
 */
final class HostRows implements AutoCloseable {
    /** The workers are well, so their tasks have not reached them. */
    static final String IN_VAIN = "a step waited in vain for its rows' attention on the CPU, for longer than twice --host-watchdog";
    static final String STEP_HANGS = "a step did not end, so nothing carries rows between GPU and CPU any more";

    private final FlightRings rings;
    private final FlightWorkers workers;
    private final List<Flight> passing = new ArrayList<>();
    private long busyBefore;
    /** Why a step was told not to wait: its host rows have no results. */
    private Optional<String> gaveUp = Optional.empty();

    /** Takes a sampled row's token, or notes that its sequence is lost. */
    interface Chooser {
        void choose(long sequence, TokenSampler sampler, Optional<TokenSampler.Draw> draw, int sampledRow);
    }

    HostRows(FlightRings rings, FlightWorkers workers) {
        this.rings = rings;
        this.workers = workers;
    }

    FlightRings rings() {
        return rings;
    }

    FlightWorkers workers() {
        return workers;
    }

    List<Flight> admit(List<Admission> admissions) {
        List<Flight> admitted = new ArrayList<>(admissions.size());
        for (Admission admission : admissions) {
            admitted.add(rings.admit(admission));
        }
        if (!admitted.isEmpty()) {
            workers.wake();
        }
        return admitted;
    }

    /** A row that passes all layers within the step at hand. */
    Flight pass(Admission row) {
        Flight flight = rings.pass(row);
        if (passing.isEmpty()) {
            workers.wake();
        }
        passing.add(flight);
        return flight;
    }

    /** While a step waits: it does no longer when a worker is gone or stalled. */
    void watch() {
        if (gaveUp.isEmpty()) {
            trouble().ifPresent(trouble -> rings.giveUp());
        }
    }

    private Optional<String> trouble() {
        if (gaveUp.isEmpty()) {
            gaveUp = workers.check().or(() -> rings.hasGivenUp()
                    ? Optional.of(rings.courierGaveUp() ? STEP_HANGS : IN_VAIN) : Optional.empty());
        }
        return gaveUp;
    }

    /** The step is over, and so are the rows that passed in it, unless {@link #collect} has named them. */
    void passed() {
        passing.stream().filter(flight -> rings.flight(flight.index) == flight).forEach(rings::end);
        passing.clear();
    }

    /**
     * Rows that went through the last layer.
     *
     * @param landed [slots] flights or -1, as the step reported
     * @param firstSample sampled row of the first slot
     */
    void land(MemorySegment landed, int slots, int firstSample, Chooser chooser, List<Long> parked) {
        for (int slot = 0; slot < slots; slot++) {
            int index = landed.getAtIndex(JAVA_INT, slot);
            Flight flight = index < 0 ? null : rings.flight(index);
            if (flight == null) {
                continue; // an empty slot, or a row that was lost on its way
            }
            if (flight.parked) {
                parked.add(flight.sequence());
            } else {
                chooser.choose(flight.sequence(), flight.admission.sampler(), flight.draw, firstSample + slot);
            }
            rings.end(flight);
        }
    }

    /**
     * What the workers let go of, or lost. When one of them is gone or stalled, every row in flight is lost, and so is every one that enters
     * later: a plan that was made before anybody knew may have some.
     */
    void collect(List<Long> parked, List<StepResult.Lost> rows) {
        for (Flight flight = rings.pollReleased(); flight != null; flight = rings.pollReleased()) {
            parked.add(flight.sequence());
            rings.end(flight);
        }
        for (FlightRings.Failure failure = rings.pollFailure(); failure != null; failure = rings.pollFailure()) {
            if (rings.flight(failure.flight().index) != failure.flight()) {
                continue; // another part of it failed before
            }
            rows.add(new StepResult.Lost(
                    failure.flight().sequence(),
                    StepResult.Cause.HOST_ATTENTION,
                    "its attention on the CPU failed: " + failure.cause(),
                    false));
            rings.end(failure.flight());
        }
        if (!rings.isFlying()) {
            return;
        }
        trouble().ifPresent(trouble -> {
            rings.giveUp();
            List<Flight> all = List.copyOf(rings.all());
            all.forEach(rings::end);
            Set<Flight> held = workers.held(); // after their end: whoever takes one up now sees that it is lost
            all.forEach(flight -> rows.add(new StepResult.Lost(
                    flight.sequence(), StepResult.Cause.HOST_ATTENTION, trouble, held.contains(flight))));
        });
    }

    /**
     * How long the workers were busy since the last call. The GPU's parts of a step are not timed: that would
     * lengthen the step.
     */
    StepTimes times() {
        long busy = workers.busyNanos();
        long since = busy - busyBefore;
        busyBefore = busy;
        return new StepTimes(0, 0, 0, since, 0, 0, 0);
    }

    /** Nobody waits for the CPU, or carries anything to it, from now on: the GPU's kernels that do end. */
    void abandon() {
        rings.giveUp();
    }

    @Override
    public void close() {
        workers.close();
    }
}
