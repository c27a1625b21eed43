package dev.tandem.bench.ideal;

import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.hardware.ModelShape;
import dev.tandem.bench.hardware.Provenance;
import dev.tandem.bench.hardware.Roofline;
import dev.tandem.engine.cost.Profile;

/** Seconds of the parts of a step. Sizes are real numbers, because a schedule is a mix of steps. */
public interface MachineSeconds {
    /** Layers of the model: an in-flight token visits the CPU once per layer. */
    int layers();

    /** One pass over all weights, for tokens of prompts and for tokens that are sampled. */
    double pass(double promptTokens, double sampledTokens);

    /** Prefill attention in all layers, by pairs of query token and context token. */
    double prefillAttention(double pairs);

    /** Decode attention on the GPU in all layers, by tokens of context. */
    double gpuAttention(double contextTokens);

    /** Bytes of KV per second that the CPU's decode attention reads. */
    double hostAttentionBandwidth();

    /** The way to the CPU and back per layer where the GPU waits. */
    double trip();

    /** Factor of a step with in-flight tokens. */
    double hostLoad();

    /**
     * The times of a machine for a model: from its measured profile, or from data sheets.
     *
     * @param context tokens of a sequence at which a measured profile's CPU attention is read
     */
    static MachineSeconds of(Hardware hardware, ModelShape model, double context) {
        return switch (hardware.provenance()) {
            case Provenance.DataSheet _ -> new RooflineSeconds(new Roofline(hardware, model));
            case Provenance.Measured measured ->
                new ProfileSeconds(hardware.profile(model), measured.kvBytesPerToken(), context);
        };
    }

    /**
     * The times of a measured profile.
     *
     * @param kvBytesPerToken of the profile's model, in all layers
     * @param context tokens of a sequence at which CPU attention is read
     */
    static MachineSeconds of(Profile profile, double kvBytesPerToken, double context) {
        return new ProfileSeconds(profile, kvBytesPerToken, context);
    }
}
