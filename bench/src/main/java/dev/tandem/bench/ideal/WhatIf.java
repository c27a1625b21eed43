package dev.tandem.bench.ideal;

import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.hardware.ModelShape;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** What the ideal would be with other hardware or another format of KV. */
public final class WhatIf {
    private static final double TWICE = 2;
    private static final double HALF = 0.5;

    private WhatIf() {}

    /** Times of a machine whose CPU attends at another rate, and whose KV has another size. */
    private record Changed(MachineSeconds base, double hostFactor, double kvFactor) implements MachineSeconds {
        @Override
        public int layers() {
            return base.layers();
        }

        @Override
        public double pass(double promptTokens, double sampledTokens) {
            return base.pass(promptTokens, sampledTokens);
        }

        @Override
        public double prefillAttention(double pairs) {
            return base.prefillAttention(pairs);
        }

        @Override
        public double gpuAttention(double contextTokens) {
            return base.gpuAttention(contextTokens * kvFactor);
        }

        @Override
        public double hostAttentionBandwidth() {
            return base.hostAttentionBandwidth() * hostFactor;
        }

        @Override
        public double trip() {
            return base.trip();
        }

        @Override
        public double hostLoad() {
            return base.hostLoad();
        }
    }

    /**
     * The case with one thing changed each, by a name in words, in the order in which they are reported.
     *
     * @param hardware of the case; says how CPU attention changes with the format of KV
     * @param model of the case
     */
    public static Map<String, IdealCase> of(IdealCase of, Hardware hardware, ModelShape model) {
        KvMemory memory = of.memory();
        Map<String, IdealCase> cases = new LinkedHashMap<>();
        cases.put("half the host memory bandwidth and cores", host(of, HALF));
        cases.put("twice the host memory bandwidth and cores", host(of, TWICE));
        cases.put(
                "twice the host KV",
                of.withMemory(new KvMemory(
                        memory.gpuBytes(), memory.stagingBytes(), TWICE * memory.hostBytes(), memory.bytesPerToken())));
        Set<Placement> withLink = EnumSet.copyOf(of.placements());
        withLink.add(Placement.LINK);
        IdealCase streaming = of.withPlacements(withLink);
        cases.put("the GPU also streams host KV over the link", streaming);
        cases.put("the same, and twice the link", link(streaming, TWICE));
        if (model.kvValueBytes() > 1) {
            ModelShape narrow = model.withKvValueBytes(model.kvValueBytes() / TWICE);
            double hostFactor = hardware.hostAttentionBandwidth(narrow) / hardware.hostAttentionBandwidth(model);
            KvMemory halved = new KvMemory(
                    memory.gpuBytes(), HALF * memory.stagingBytes(), memory.hostBytes(), HALF * memory.bytesPerToken());
            cases.put(
                    "KV of half the bits on both tiers",
                    seconds(of.withMemory(halved), new Changed(of.seconds(), hostFactor, HALF)));
        }
        return cases;
    }

    private static IdealCase host(IdealCase of, double factor) {
        IdealCase changed = seconds(of, new Changed(of.seconds(), factor, 1));
        return new IdealCase(
                changed.seconds(),
                of.memory(),
                of.linkBandwidth(),
                of.hostReadBandwidth() * factor,
                of.lengths(),
                of.bounds(),
                of.placements());
    }

    private static IdealCase link(IdealCase of, double factor) {
        return new IdealCase(
                of.seconds(),
                of.memory(),
                of.linkBandwidth() * factor,
                of.hostReadBandwidth(),
                of.lengths(),
                of.bounds(),
                of.placements());
    }

    private static IdealCase seconds(IdealCase of, MachineSeconds seconds) {
        return new IdealCase(
                seconds,
                of.memory(),
                of.linkBandwidth(),
                of.hostReadBandwidth(),
                of.lengths(),
                of.bounds(),
                of.placements());
    }
}
