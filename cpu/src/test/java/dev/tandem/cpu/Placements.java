package dev.tandem.cpu;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.Shuffling;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;

/** The policies under which a model's tokens are compared with those of another implementation. */
final class Placements {
    /** Sequences move between the tiers and stand still at random. */
    private static final String SHUFFLING = "shuffling";

    /** All on the GPU, all on the host, in two sub-batches, in flight, chosen by gain, and moving at random. */
    static final List<String> NAMES = List.of(
            "gpu-only",
            "fastdecode-plus",
            "simple-offload",
            "neo",
            "async-overlap",
            "adaptive-pipelining",
            "adaptive",
            SHUFFLING);

    private Placements() {}

    /** A new policy of one of {@link #NAMES}. */
    static Policy policy(String placement, Budget budget) {
        return switch (placement) {
            case "gpu-only" -> new GpuOnly(budget, Preemption.SWAP);
            case SHUFFLING -> new Shuffling(budget, Shuffling.Takes.EVERYTHING, 7);
            default -> Strategy.of(placement).policy(Strategy.Options.of(budget), TestProfile.withCpu(100));
        };
    }
}
