package dev.tandem.cuda.hostattention;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.model.config.ModelConfig;
import java.util.Optional;

/** Sizes of host KV blocks, as prelude.cu and the CPU's attention both lay them out. */
public final class HostFormat {
    /** Tokens per host KV block. */
    public static final int BLOCK_TOKENS = BlockFormat.TOKENS;

    private static final int KEY_ROW_STEP = BlockFormat.KEY_ROW_STEP;

    private HostFormat() {}

    /** Why the CPU's attention cannot serve the model; empty when it can. */
    public static Optional<String> obstacle(ModelConfig config) {
        return config.headDim() % KEY_ROW_STEP == 0
                ? Optional.empty()
                : Optional.of("the CPU's attention needs heads of a multiple of " + KEY_ROW_STEP
                        + ", this model's have " + config.headDim());
    }

    /** Bytes of a host block in one layer. */
    public static long blockBytes(ModelShape shape) {
        int headDim = shape.config().headDim();
        int keyRows = (headDim / 2 + KEY_ROW_STEP - 1) / KEY_ROW_STEP * KEY_ROW_STEP;
        return shape.config().kvHeads()
                * ((long) keyRows * BLOCK_TOKENS * Integer.BYTES + (long) BLOCK_TOKENS * headDim * Short.BYTES);
    }

    /** KV bytes of a token over all layers. */
    public static long bytesPerToken(ModelShape shape) {
        return blockBytes(shape) / BLOCK_TOKENS * shape.config().layers();
    }
}
