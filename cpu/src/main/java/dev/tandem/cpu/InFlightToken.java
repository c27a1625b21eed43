package dev.tandem.cpu;

import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import java.util.Optional;

/**
 * One in-flight token and its state between two layers, all fp32.
 *
 * <p>Owned by: engine thread; workers write {@link #attended}, disjoint heads each.
 */
final class InFlightToken {
    final Chunk chunk;
    /** The layer whose attention it waits for. */
    int layer;
    /** [hidden]: the residual stream. */
    final float[] residual;
    /** [q | k | v] of {@link #layer}. */
    final float[] qkv;
    /** [heads * headDim]: the attention output of {@link #layer}. */
    final float[] attended;
    /** [rotations, headDim / 2]: cosines of the RoPE angles; {@link #sin} has the sines. */
    final float[] cos;

    final float[] sin;

    InFlightToken(Admission admission, Activations shape) {
        this.chunk = new Chunk(
                admission.sequence(),
                admission.position(),
                new int[] {admission.token()},
                admission.kv(),
                AttentionSite.CPU_FROM_HOST,
                Optional.of(admission.sampler()));
        this.residual = new float[shape.hiddenWidth];
        this.qkv = new float[shape.qkvWidth];
        this.attended = new float[shape.attendedWidth];
        this.cos = new float[shape.angles];
        this.sin = new float[shape.angles];
    }

    long sequence() {
        return chunk.sequence();
    }

    int position() {
        return chunk.start();
    }
}
