package dev.tandem.bench.ideal;

import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.hardware.ModelShape;
import dev.tandem.engine.cost.Profile;
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

    /** Prompt tokens whose KV is in transit at a time. */
    private static final int STAGED_TOKENS = 2048;
    /** One layer's KV is written while a copy of another layer's leaves. */
    private static final int STAGED_LAYERS = 2;
    /** A copy large enough that its start does not count; tandem profile measures up to this size. */
    private static final double LINK_BYTES = 1 << 28;

    /**
     * The case of a machine, with the placements of Tandem. Staging is the least that layer-wise offload needs: two
     * layers of a prompt chunk. It is kept free in all steps of a schedule with a host tier, whereas a step of Tandem
     * borrows whole blocks only while it offloads prompts.
     *
     * @param gpuKvBytes GPU bytes for KV; equal for the GPU alone
     * @param hostKvBytes host bytes for KV
     */
    public static IdealCase of(
            Hardware hardware,
            ModelShape model,
            double gpuKvBytes,
            double hostKvBytes,
            Lengths lengths,
            Bounds bounds) {
        return new IdealCase(
                MachineSeconds.of(hardware, model, lengths.context()),
                memory(gpuKvBytes, hostKvBytes, model.kvBytesPerToken(), model.layers(), lengths),
                hardware.linkBandwidth(),
                hardware.hostReadBandwidth(),
                lengths,
                bounds,
                IMPLEMENTED);
    }

    /**
     * The case of the machine of a profile, with the placements of Tandem. The profile says nothing of host reads
     * beside CPU attention's, which have their own rate.
     *
     * @param gpuKvBytes GPU bytes for KV; equal for the GPU alone
     * @param hostKvBytes host bytes for KV
     * @param kvBytesPerToken in all layers
     */
    public static IdealCase of(
            Profile profile,
            double gpuKvBytes,
            double hostKvBytes,
            double kvBytesPerToken,
            Lengths lengths,
            Bounds bounds) {
        return new IdealCase(
                MachineSeconds.of(profile, kvBytesPerToken, lengths.context()),
                memory(gpuKvBytes, hostKvBytes, kvBytesPerToken, profile.layers(), lengths),
                LINK_BYTES / profile.transfer().at(LINK_BYTES),
                Double.POSITIVE_INFINITY,
                lengths,
                bounds,
                IMPLEMENTED);
    }

    private static KvMemory memory(
            double gpuBytes, double hostBytes, double bytesPerToken, int layers, Lengths lengths) {
        double staged = Math.min(lengths.prompt() * (1 - lengths.cached()), STAGED_TOKENS);
        return new KvMemory(gpuBytes, STAGED_LAYERS * staged * bytesPerToken / layers, hostBytes, bytesPerToken);
    }

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
