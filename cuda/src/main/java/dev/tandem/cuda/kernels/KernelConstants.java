package dev.tandem.cuda.kernels;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.engine.request.SamplingParams;
import java.util.List;

/** The constants that kernels and launches share. Kernels receive them as defines of the same names. */
public final class KernelConstants {
    /** Tokens of a GPU KV block. */
    public static final int BLOCK_TOKENS = 16;
    /** Tokens of a host KV block. */
    static final int HOST_TOKENS = BlockFormat.TOKENS;
    /** Tokens of K and V that prefill attention stages at a time. */
    public static final int STAGE_TOKENS = 64;
    /** Max slots of a step. */
    public static final int MAX_SLOTS = 64;
    /** Where a step's header has the thread blocks of prefill attention, where decode attention is next. */
    public static final int PROMPT_BLOCKS = 4;
    /** Where a step's header has how many of these share a tile. */
    public static final int PROMPT_SPLITS = 5;
    /** Threads per block of {@code move_out} and {@code move_in}. */
    static final int MOVE_THREADS = 512;
    /** Partial results of a row's argmax. */
    public static final int ARGMAX_PARTS = 16;
    /** Flag of {@code decode_attention}: its first thread block transfers in-flight tokens. */
    public static final int DECODE_TRANSFERS = 1;
    /** Flag of {@code decode_attention}: this is the model's last layer. */
    public static final int DECODE_LAST_LAYER = 2;
    /** Flag of {@code decode_attention}: it runs beside prefill attention, which is the kernel before. */
    public static final int DECODE_OVERLAPS_PREFILL = 4;

    private KernelConstants() {}

    /** Compiler options that define them. */
    static List<String> defines() {
        return List.of(
                define("BLOCK_TOKENS", BLOCK_TOKENS),
                define("HOST_TOKENS", HOST_TOKENS),
                define("STAGE_TOKENS", STAGE_TOKENS),
                define("MAX_SLOTS", MAX_SLOTS),
                define("PROMPT_BLOCKS", PROMPT_BLOCKS),
                define("PROMPT_SPLITS", PROMPT_SPLITS),
                define("MOVE_THREADS", MOVE_THREADS),
                define("ARGMAX_PARTS", ARGMAX_PARTS),
                define("MAX_LOGPROBS", SamplingParams.MAX_LOGPROBS),
                define("DECODE_TRANSFERS", DECODE_TRANSFERS),
                define("DECODE_LAST_LAYER", DECODE_LAST_LAYER),
                define("DECODE_OVERLAPS_PREFILL", DECODE_OVERLAPS_PREFILL));
    }

    /** The compiler option that defines a constant. */
    static String define(String name, int value) {
        return "-D" + name + "=" + value;
    }
}
