package dev.tandem.cpu;

import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import java.util.Optional;

/**
 * A in-flight token: what it carries from layer to layer.
 *
 * <p>Owned by: engine thread; workers write its attention output.
 */
final class InFlightToken {
    final Chunk chunk;
    /** The layer whose attention it waits for. */
    int layer;
    /** [hidden] */
    final float[] residual;
    /** [q | k | v] of its layer. */
    final float[] qkv;
    /** [heads * headDim] of its layer. */
    final float[] attended;
    /** [headDim / 2] */
    final float[] cos;

    final float[] sin;

    InFlightToken(Admission admission, Activations shape) {
        this.chunk = new Chunk(
                admission.sequence(),
                admission.position(),
                new int[] {admission.token()},
                admission.blocks(),
                AttentionSite.CPU_FROM_HOST,
                Optional.of(admission.sampler()));
        this.residual = new float[shape.hiddenWidth];
        this.qkv = new float[shape.qkvWidth];
        this.attended = new float[shape.attendedWidth];
        this.cos = new float[shape.half];
        this.sin = new float[shape.half];
    }

    long sequence() {
        return chunk.sequence();
    }

    int position() {
        return chunk.start();
    }
}
