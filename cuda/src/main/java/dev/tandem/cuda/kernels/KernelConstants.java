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
    /** Rows of K in a host KV block, which are pairs of head dimensions, are padded to a multiple of this. */
    static final int KEY_ROW_STEP = BlockFormat.KEY_ROW_STEP;
    /** Tokens of K and V that prefill attention stages at a time. */
    public static final int STAGE_TOKENS = 64;
    /** Rows of a tile of prefill attention: tokens times the heads of a group. */
    public static final int PREFILL_ROWS = 128;
    /** Threads that compute a tile of prefill attention. Each publishes its part of a partial result. */
    public static final int PREFILL_THREADS = 256;
    /** Further threads per block of {@code prefill_wgmma.cu}, which stage K and V. */
    static final int STAGING_THREADS = 128;
    /** Max host tokens at a time; the rings keep their indices in 16 bits. */
    public static final int MAX_HOST_TOKENS = 1024;
    /** Max slots of a step: in a cohort, each host token needs one at the same layer. */
    public static final int MAX_SLOTS = MAX_HOST_TOKENS;
    /** Where a step's header has the thread blocks of prefill attention, where decode attention is next. */
    public static final int PROMPT_BLOCKS = 4;
    /** Where a step's header has how many of these share a tile. */
    public static final int PROMPT_SPLITS = 5;
    /** Where a step's header has {@code struct BatchHostTokens}. */
    public static final int HEADER_HOST_TOKENS = 8;
    /** Max threads per block of {@code add_norm_few}, and of {@code add_norm} over all blocks of a row. */
    static final int NORM_THREADS = 1024;
    /** Max threads per block of {@code add_norm_many}. */
    static final int NORM_MANY_THREADS = 256;
    /** Threads per block of {@code compact_rows}. */
    static final int COMPACT_ROWS_THREADS = 128;
    /** Threads per block of {@code rope_store}. */
    static final int ROPE_THREADS = 128;
    /**
     * Threads per block of {@code qk_scales}, which computes the scale of a row's q or k. On an H200, with the shapes
     * of OLMo 2 7B, the kernels of rows take 8 % longer with 128 in a step of one token, and 5 % longer with 512 in a
     * prompt of 2,048 (constants.jsonl).
     */
    static final int QK_SCALES_THREADS = 256;
    /** Threads per block of {@code swiglu}. */
    public static final int SWIGLU_THREADS = 256;
    /** Threads per block of {@code move_out} and {@code move_in}. */
    static final int MOVE_THREADS = 512;
    /** Threads per block of {@code argmax}, {@code adjust} and {@code mask_logits}. */
    static final int ARGMAX_THREADS = 256;
    /** Threads per block of {@code sample}, {@code logprobs} and {@code score}. */
    static final int SAMPLE_THREADS = 1024;
    /** Threads per block of {@code transfer}, {@code send_in_flight} and {@code receive_in_flight}. */
    static final int TRANSFER_THREADS = 256;
    /** Threads per block of {@code receive_host_tokens}. */
    static final int HOST_TOKEN_THREADS = 128;
    /** Threads per block of {@code gemv.cu}, which computes as many weight rows. */
    public static final int GEMV_THREADS = 256;
    /** Steps of 32 columns of x that {@code gemv.cu} stages at a time. */
    static final int GEMV_CHUNK_STEPS = 8;
    /** Weight rows of a box of the Tensor Memory Accelerator in {@code gemv_tma.cu} and {@code gemm_wgmma.cu}. */
    public static final int BOX_ROWS = 64;
    /** Threads per block of {@code gemv_tma.cu}: four warps that compute two boxes, and one that copies. */
    static final int GEMV_TMA_THREADS = 160;
    /** Threads per block of {@code gemm_wgmma.cu}: two warpgroups that compute two boxes, and a warp that copies. */
    static final int WGMMA_THREADS = 288;
    /** Threads per block of {@code gemm_wgmma_tall} and its form with SwiGLU: four warpgroups compute four boxes. */
    static final int WGMMA_TALL_THREADS = 512;
    /** Rows of x of a tile of {@code gemm_swiglu.cu}. */
    public static final int SWIGLU_TILE_ROWS = 128;
    /** Weight rows of a tile of {@code gemm_swiglu.cu}. */
    public static final int SWIGLU_TILE_WEIGHTS = 256;
    /** Threads per block of {@code gemm_swiglu.cu}: two warpgroups that compute, and a third that copies. */
    static final int GEMM_SWIGLU_THREADS = 384;
    /** Thread blocks per row of {@code argmax}, one per partial result, and of {@code mask_logits}. */
    public static final int ARGMAX_PARTS = 16;
    /** A word of a partial result of decode attention that no thread block has published: all bits are set. */
    public static final int UNPUBLISHED = -1;
    /** Value of the abort word of the host tokens if the host or {@code receive_host_tokens} wrote it. */
    public static final int ABORTED = 1;
    /** Value of the abort word if the transfer kernel wrote it. */
    public static final int ABORTED_BY_TRANSFER = 2;
    /** Flag of {@code decode_attention}: its first thread block transfers in-flight tokens. */
    public static final int DECODE_TRANSFERS = 1;
    /** Flag of {@code decode_attention}: this is the model's last layer. */
    public static final int DECODE_LAST_LAYER = 2;
    /** Flag of {@code decode_attention}: it runs beside prefill attention, which is the kernel before. */
    public static final int DECODE_OVERLAPS_PREFILL = 4;
    /** Flag of {@code decode_attention}: in-flight tokens leave and return in slots. */
    public static final int DECODE_EXCHANGES = 8;

    /** Words per row that {@code score} writes: a log-probability, a rank, and the alternatives with theirs. */
    public static final int SCORE_WORDS = 2 + 2 * SamplingParams.MAX_LOGPROBS;

    private KernelConstants() {}

    /** Compiler options that define them. */
    static List<String> defines() {
        return List.of(
                define("BLOCK_TOKENS", BLOCK_TOKENS),
                define("HOST_TOKENS", HOST_TOKENS),
                define("KEY_ROW_STEP", KEY_ROW_STEP),
                define("STAGE_TOKENS", STAGE_TOKENS),
                define("PREFILL_ROWS", PREFILL_ROWS),
                define("PREFILL_THREADS", PREFILL_THREADS),
                define("STAGING_THREADS", STAGING_THREADS),
                define("MAX_HOST_TOKENS", MAX_HOST_TOKENS),
                define("MAX_SLOTS", MAX_SLOTS),
                define("PROMPT_BLOCKS", PROMPT_BLOCKS),
                define("PROMPT_SPLITS", PROMPT_SPLITS),
                define("HEADER_HOST_TOKENS", HEADER_HOST_TOKENS),
                define("NORM_THREADS", NORM_THREADS),
                define("NORM_MANY_THREADS", NORM_MANY_THREADS),
                define("COMPACT_ROWS_THREADS", COMPACT_ROWS_THREADS),
                define("ROPE_THREADS", ROPE_THREADS),
                define("QK_SCALES_THREADS", QK_SCALES_THREADS),
                define("SWIGLU_THREADS", SWIGLU_THREADS),
                define("MOVE_THREADS", MOVE_THREADS),
                define("ARGMAX_THREADS", ARGMAX_THREADS),
                define("SAMPLE_THREADS", SAMPLE_THREADS),
                define("TRANSFER_THREADS", TRANSFER_THREADS),
                define("HOST_TOKEN_THREADS", HOST_TOKEN_THREADS),
                define("GEMV_THREADS", GEMV_THREADS),
                define("GEMV_CHUNK_STEPS", GEMV_CHUNK_STEPS),
                define("BOX_ROWS", BOX_ROWS),
                define("GEMV_TMA_THREADS", GEMV_TMA_THREADS),
                define("WGMMA_THREADS", WGMMA_THREADS),
                define("WGMMA_TALL_THREADS", WGMMA_TALL_THREADS),
                define("SWIGLU_TILE_ROWS", SWIGLU_TILE_ROWS),
                define("SWIGLU_TILE_WEIGHTS", SWIGLU_TILE_WEIGHTS),
                define("GEMM_SWIGLU_THREADS", GEMM_SWIGLU_THREADS),
                define("ARGMAX_PARTS", ARGMAX_PARTS),
                define("UNPUBLISHED", UNPUBLISHED),
                define("ABORTED", ABORTED),
                define("ABORTED_BY_TRANSFER", ABORTED_BY_TRANSFER),
                define("MAX_LOGPROBS", SamplingParams.MAX_LOGPROBS),
                define("SCORE_WORDS", SCORE_WORDS),
                define("DECODE_TRANSFERS", DECODE_TRANSFERS),
                define("DECODE_LAST_LAYER", DECODE_LAST_LAYER),
                define("DECODE_OVERLAPS_PREFILL", DECODE_OVERLAPS_PREFILL),
                define("DECODE_EXCHANGES", DECODE_EXCHANGES));
    }

    /** The compiler option that defines a constant. */
    static String define(String name, int value) {
        return "-D" + name + "=" + value;
    }

    /** The compiler option that defines a constant of fp32. */
    static String define(String name, float value) {
        return "-D" + name + "=" + value + "f";
    }
}
