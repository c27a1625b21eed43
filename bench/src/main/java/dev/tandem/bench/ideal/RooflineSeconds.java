package dev.tandem.bench.ideal;

import dev.tandem.bench.hardware.Roofline;

/**
 * Times from data sheets. A pass is one memory time and one arithmetic time over all layers and the output head, so
 * that the head's reads hide behind a prompt's arithmetic: an ideal engine overlaps them.
 */
record RooflineSeconds(Roofline roofline) implements MachineSeconds {
    @Override
    public int layers() {
        return roofline.model().layers();
    }

    @Override
    public double pass(double promptTokens, double sampledTokens) {
        return roofline.pass(promptTokens, sampledTokens);
    }

    @Override
    public double prefillAttention(double pairs) {
        return layers() * roofline.prefillAttentionPerLayer(pairs);
    }

    @Override
    public double gpuAttention(double contextTokens) {
        return layers() * roofline.gpuAttentionPerLayer(contextTokens);
    }

    @Override
    public double hostAttentionBandwidth() {
        return roofline.hardware().hostAttentionBandwidth(roofline.model());
    }

    @Override
    public double trip() {
        return Roofline.TRIP_SECONDS;
    }

    @Override
    public double hostLoad() {
        return Roofline.HOST_LOAD;
    }
}
