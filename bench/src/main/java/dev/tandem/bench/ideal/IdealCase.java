package dev.tandem.bench.ideal;

import java.util.EnumSet;
import java.util.Set;

/**
 * A machine, model and workload whose ideal is asked for.
 *
 * @param seconds of the parts of a step
 * @param memory for KV
 * @param linkBandwidth bytes per second between the tiers, in one direction
 * @param hostReadBandwidth bytes per second of host memory, which CPU and link share
 * @param lengths of the requests
 * @param bounds of the steps
 * @param placements that a schedule with a host tier may use
 */
public record IdealCase(
        MachineSeconds seconds,
        KvMemory memory,
        double linkBandwidth,
        double hostReadBandwidth,
        Lengths lengths,
        Bounds bounds,
        Set<Placement> placements) {
    /** The placements that strategies of Tandem use. */
    public static final Set<Placement> IMPLEMENTED =
            Set.copyOf(EnumSet.of(Placement.IN_FLIGHT, Placement.SAME_LAYER, Placement.TWO_SUB_BATCHES));

    /** This case with other placements. */
    public IdealCase withPlacements(Set<Placement> other) {
        return new IdealCase(seconds, memory, linkBandwidth, hostReadBandwidth, lengths, bounds, other);
    }

    /** This case with other bounds. */
    public IdealCase withBounds(Bounds other) {
        return new IdealCase(seconds, memory, linkBandwidth, hostReadBandwidth, lengths, other, placements);
    }

    /** This case with other KV memory. */
    public IdealCase withMemory(KvMemory other) {
        return new IdealCase(seconds, other, linkBandwidth, hostReadBandwidth, lengths, bounds, placements);
    }
}
