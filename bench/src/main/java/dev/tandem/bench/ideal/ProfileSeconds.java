package dev.tandem.bench.ideal;

import dev.tandem.engine.cost.Profile;

/**
 * Times from a measured profile.
 *
 * @param kvBytesPerToken of the profile's model, in all layers
 * @param context tokens of a sequence at which CPU attention is read
 */
record ProfileSeconds(Profile profile, double kvBytesPerToken, double context) implements MachineSeconds {
    @Override
    public int layers() {
        return profile.layers();
    }

    @Override
    public double pass(double promptTokens, double sampledTokens) {
        double tokens = promptTokens + sampledTokens;
        if (tokens <= 0) {
            return 0;
        }
        return layers() * profile.linear().at(tokens)
                + profile.preLayer().at(tokens)
                + profile.postLayer().at(sampledTokens)
                + profile.stepOverhead();
    }

    @Override
    public double prefillAttention(double pairs) {
        return layers() * profile.prefillAttention().at(pairs);
    }

    @Override
    public double gpuAttention(double contextTokens) {
        return layers() * profile.gpuAttention().at(contextTokens);
    }

    /** The rate of the most tokens that were measured together: enough for all workers. */
    @Override
    public double hostAttentionBandwidth() {
        var all = profile.cpuAttention().lastEntry();
        return all.getKey()
                * context
                * kvBytesPerToken
                / layers()
                / all.getValue().at(context);
    }

    @Override
    public double trip() {
        return profile.tripOverhead();
    }

    @Override
    public double hostLoad() {
        return profile.hostLoad();
    }
}
