package dev.tandem.cuda.kernels;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.model.config.Activation;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.NormPlacement;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeScaling;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * Lists the kernel sources that a model needs on a GPU, with their options. Representative models allow a machine
 * without GPU to compile every variant.
 */
public final class KernelCatalogue {
    /** First compute capability with the Tensor Memory Accelerator and programmatic dependent launch. */
    static final int COPY_ENGINE = 90;
    /** First compute capability with thread block clusters. */
    static final int CLUSTERS = 90;
    /** The compute capability with asynchronous warpgroup MMA (wgmma); later ones do not have it. */
    static final int WARP_GROUPS = 90;
    /**
     * Shared memory of the ring of gemv_tma.cu. On 9.0 two thread blocks share a multiprocessor and take at most 196
     * KiB, their other shared memory included. With the next larger size the L1 cache is too small for the attention
     * that follows, which is then a sixth slower. On 12.0 and 12.1 a multiprocessor holds one block; nothing was
     * measured there.
     */
    static final int RING_BYTES = 96 << 10;
    /** Shared memory of the ring of gemm_wgmma.cu, whose thread blocks have a multiprocessor to themselves. */
    static final int WGMMA_RING_BYTES = 192 << 10;
    /**
     * Likewise of its thread blocks of 256 weight rows: the most that a multiprocessor has, less a few KiB. On 8
     * multiprocessors of an H200 at 300 GB/s, 32 rows took 1.72 ms per layer with six stages under way, and 1.89 to
     * 1.94 with thread blocks of 128 weight rows; 96 rows took 2.21 ms with five stages, and 2.63 with three (trial
     * builds, ADR 137).
     */
    static final int TALL_RING_BYTES = 224 << 10;
    /**
     * Stages of x in that ring with which one more stage of weights pays. Copies of x come from the L2 cache and take
     * about as long as those of weights: on that GPU, steps of 32 rows took 94 ms with six stages of weights and four
     * of x, and 88 with six of both, in persistent blocks. With five of x, 48 rows have a sixth stage of weights; with
     * four, 64 rows have one too, and gain nothing (trial builds, ADR 139).
     */
    private static final int ENOUGH_STAGES_OF_X = 5;
    /** Stages of gemm_swiglu.cu, whose thread blocks have a multiprocessor to themselves too. */
    private static final int GEMM_SWIGLU_STAGES = 4;
    /** The compute capabilities that the kernels compile for; the first has no bfloat16. */
    public static final List<Integer> CAPABILITIES = List.of(75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121);

    private static final int FIRST_WITH_BFLOAT16 = 80;
    /** The only compute capability on which the kernels have run. */
    private static final int TESTED = 90;

    /** Bytes of a row of a box: 64 columns of 16 bits. */
    private static final int BOX_ROW_BYTES = 128;

    private static final int GEMV_CHUNK_BYTES = KernelConstants.GEMV_CHUNK_STEPS * 32 * 16;

    /**
     * A kernel of a source, as it is launched.
     *
     * @param threads per block
     * @param sharedBytes dynamic shared memory per block
     * @param waits whether it begins with a wait for the kernel before it (programmatic dependent launch)
     */
    public record Entry(String kernel, int threads, int sharedBytes, boolean waits) {}

    /** A source with its options and the kernels that are launched from it. */
    public record Unit(String source, List<String> defines, List<Entry> entries) {
        /** The entry of a kernel. */
        public Entry entry(String kernel) {
            return entries.stream()
                    .filter(entry -> entry.kernel().equals(kernel))
                    .findFirst()
                    .orElseThrow(() -> new IllegalArgumentException(source + ".cu has no kernel " + kernel));
        }
    }

    private KernelCatalogue() {}

    /**
     * Max shared memory per thread block in bytes, by compute capability (CUDA programming guide, technical
     * specifications).
     *
     * @param capability one of {@link #CAPABILITIES}
     */
    public static int sharedMemory(int capability) {
        return switch (capability) {
            case 75 -> 64 << 10;
            case 80, 87 -> 163 << 10;
            case 86, 89, 120, 121 -> 99 << 10;
            case 90, 100, 103, 110 -> 227 << 10;
            default ->
                throw new IllegalArgumentException("compute capability " + text(capability) + " is none of " + text());
        };
    }

    /**
     * Checks that the kernels run on a GPU.
     *
     * @throws CudaException when they do not compile for its compute capability
     */
    public static void require(int capability) {
        if (!CAPABILITIES.contains(capability)) {
            throw new CudaException("the GPU has compute capability " + text(capability)
                    + ", for which Tandem has no kernels; they compile for " + text()
                    + ". Run on the CPU with --device cpu");
        }
    }

    private static String text(int capability) {
        return capability / 10 + "." + capability % 10;
    }

    private static String text() {
        return CAPABILITIES.stream().map(KernelCatalogue::text).collect(Collectors.joining(", "));
    }

    /**
     * The features that a GPU lacks, one sentence each, for the log.
     *
     * @param slice whether it is a MIG slice
     */
    public static List<String> limitations(int capability, boolean slice) {
        List<String> limitations = new ArrayList<>();
        if (capability < COPY_ENGINE) {
            limitations.add(
                    "no Tensor Memory Accelerator and no overlapped launches: these need compute capability 9.0");
        } else if (capability != WARP_GROUPS) {
            limitations.add("no asynchronous warpgroup MMA: its kernels are written for compute capability 9.0 alone");
        }
        if (capability != TESTED) {
            limitations.add("untested: the kernels compile for compute capability " + text(capability)
                    + " and have never run on it");
        }
        if (slice) {
            limitations.add("no prefill attention beside decode attention: the driver does not report the memory "
                    + "bandwidth of a MIG"
                    + " slice");
        }
        return limitations;
    }

    /**
     * The sources in a fixed order: rows, decode, prefill, sample, host_transfer, then GEMMs by ascending rows: gemv,
     * gemv_tma, gemm_wgmma, gemm_swiglu.
     *
     * @param sharedMemory max bytes per thread block
     */
    public static List<Unit> units(ModelShape shape, int capability, int sharedMemory) {
        List<String> common = shape.defines();
        Prefill prefill = prefill(shape, capability, sharedMemory);
        List<Unit> units = new ArrayList<>();
        units.add(new Unit("rows", common, rows(shape, capability)));
        units.add(new Unit("decode", common, List.of(waiting("decode_attention", shape.decodeWarps() * 32, 0))));
        units.add(new Unit(
                prefill.source(),
                with(common, "-DSTAGES=" + prefill.stages()),
                List.of(waiting("prefill_attention", prefill.threads(), prefill.stages() * shape.stageBytes()))));
        units.add(new Unit(
                "sample",
                common,
                List.of(
                        waiting("argmax", KernelConstants.ARGMAX_THREADS, 0),
                        waiting("sample", KernelConstants.SAMPLE_THREADS, 0),
                        waiting("adjust", KernelConstants.ARGMAX_THREADS, 0),
                        waiting("mask_logits", KernelConstants.ARGMAX_THREADS, 0),
                        waiting("logprobs", KernelConstants.SAMPLE_THREADS, 0),
                        waiting("score", KernelConstants.SAMPLE_THREADS, 0))));
        units.add(new Unit(
                "host_transfer",
                common,
                List.of(
                        free("transfer", KernelConstants.TRANSFER_THREADS),
                        free("send_in_flight", KernelConstants.TRANSFER_THREADS),
                        waiting("receive_in_flight", KernelConstants.TRANSFER_THREADS, 0),
                        waiting("receive_host_tokens", KernelConstants.HOST_TOKEN_THREADS, 0),
                        waiting("report", 256, 0))));
        for (int tiles : Kernels.TILES) {
            int shared = 2 * GEMV_CHUNK_BYTES * tiles;
            units.add(new Unit(
                    "gemv",
                    with(common, "-DTILES=" + tiles),
                    List.of(
                            waiting("gemv", KernelConstants.GEMV_THREADS, shared),
                            waiting("gemv_swiglu", KernelConstants.GEMV_THREADS, shared))));
        }
        for (int tiles : capability >= COPY_ENGINE ? Kernels.TILES : List.<Integer>of()) {
            int stages = RING_BYTES / stageBytes(tiles);
            units.add(new Unit(
                    "gemv_tma",
                    with(common, "-DTILES=" + tiles, "-DSTAGES_OF_RING=" + stages),
                    List.of(
                            waiting("gemv_tma", KernelConstants.GEMV_TMA_THREADS, stages * stageBytes(tiles)),
                            waiting("gemv_tma_swiglu", KernelConstants.GEMV_TMA_THREADS, stages * stageBytes(tiles)))));
        }
        for (int rows : capability == WARP_GROUPS ? Kernels.WGMMA_ROWS : List.<Integer>of()) {
            units.add(wgmma(common, rows));
        }
        if (capability == WARP_GROUPS) {
            units.add(new Unit(
                    "gemm_swiglu",
                    with(common, "-DSTAGES=" + GEMM_SWIGLU_STAGES),
                    List.of(waiting("gemm_swiglu", KernelConstants.GEMM_SWIGLU_THREADS, gemmSwigluBytes()))));
        }
        return units;
    }

    /** The source of the kernel that takes memory bandwidth; no model needs it. */
    public static Unit memoryLoad(ModelShape shape) {
        return new Unit("memory_load", shape.defines(), List.of(free("read_memory", 512)));
    }

    private static List<Entry> rows(ModelShape shape, int capability) {
        int quads = shape.hidden() / 4;
        int blocks = normBlocks(capability);
        List<Entry> entries = new ArrayList<>(List.of(
                waiting("embed", 256, 0),
                waiting("add_norm_few", threads(quads, KernelConstants.NORM_THREADS), 0),
                waiting("add_norm", threads((quads + blocks - 1) / blocks, KernelConstants.NORM_THREADS / blocks), 0),
                waiting("add_norm_many", threads(quads / 2, KernelConstants.NORM_MANY_THREADS), 0),
                waiting("compact_rows", KernelConstants.COMPACT_ROWS_THREADS, 0),
                waiting("rope_store", KernelConstants.ROPE_THREADS, 0),
                waiting("swiglu", KernelConstants.SWIGLU_THREADS, 0),
                free("move_out", KernelConstants.MOVE_THREADS),
                free("move_in", KernelConstants.MOVE_THREADS),
                free("sum_moved", 256),
                free("random_fill", 256)));
        if (shape.variant().qkNorm() == QkNorm.WHOLE_ROW) {
            entries.add(waiting("qk_scales", KernelConstants.QK_SCALES_THREADS, 0));
        }
        return List.copyOf(entries);
    }

    private static Unit wgmma(List<String> common, int rows) {
        int x = BOX_ROW_BYTES * rows;
        int strip = 2 * BOX_ROW_BYTES * KernelConstants.BOX_ROWS;
        int stages = WGMMA_RING_BYTES / (strip + x);
        int ring = stages * (strip + x);
        int tallStages =
                Math.max(TALL_RING_BYTES / (2 * strip + x), (TALL_RING_BYTES - ENOUGH_STAGES_OF_X * x) / (2 * strip));
        int stagesOfX = Math.min(tallStages, (TALL_RING_BYTES - tallStages * 2 * strip) / x);
        int tallRing = tallStages * 2 * strip + stagesOfX * x;
        return new Unit(
                "gemm_wgmma",
                with(
                        common,
                        "-DTOKENS=" + rows,
                        "-DSTRIP_STAGES=" + stages,
                        "-DTALL_STAGES=" + tallStages,
                        "-DTALL_STAGES_OF_X=" + stagesOfX),
                List.of(
                        waiting("gemm_wgmma", KernelConstants.WGMMA_THREADS, ring),
                        waiting("gemm_wgmma_swiglu", KernelConstants.WGMMA_THREADS, ring),
                        waiting("gemm_wgmma_tall", KernelConstants.WGMMA_TALL_THREADS, tallRing),
                        waiting("gemm_wgmma_swiglu_tall", KernelConstants.WGMMA_TALL_THREADS, tallRing)));
    }

    private static Entry waiting(String kernel, int threads, int sharedBytes) {
        return new Entry(kernel, threads, sharedBytes, true);
    }

    private static Entry free(String kernel, int threads) {
        return new Entry(kernel, threads, 0, false);
    }

    private static int threads(int values, int max) {
        return Math.min(max, values + 31 & ~31);
    }

    /** Thread blocks that share a row of {@code add_norm}; they form a cluster where the GPU has clusters. */
    static int normBlocks(int capability) {
        return capability >= CLUSTERS ? 2 : 1;
    }

    /**
     * The source of a model's prefill attention, and how its kernel is launched.
     *
     * @param stages of K and V in shared memory
     * @param persistent whether each thread block computes several work units in turn
     */
    record Prefill(String source, int threads, int stages, boolean persistent) {}

    static Prefill prefill(ModelShape shape, int capability, int sharedMemory) {
        if (capability == WARP_GROUPS && (shape.headWidth() == 64 || shape.headWidth() == 128)) {
            return new Prefill(
                    "prefill_wgmma", KernelConstants.PREFILL_THREADS + KernelConstants.STAGING_THREADS, 4, true);
        }
        return new Prefill(
                "prefill", KernelConstants.PREFILL_THREADS, 2 * shape.stageBytes() <= sharedMemory ? 2 : 1, false);
    }

    private static List<String> with(List<String> common, String... more) {
        List<String> defines = new ArrayList<>(common);
        defines.addAll(List.of(more));
        return List.copyOf(defines);
    }

    /** Bytes of a stage of gemv_tma.cu: 128 rows of weights and the rows of x, 64 columns each. */
    static int stageBytes(int tiles) {
        return BOX_ROW_BYTES * (2 * KernelConstants.BOX_ROWS + 8 * tiles);
    }

    /**
     * Shared memory of gemm_swiglu.cu: stages of 128 rows of x and 256 of weights, 64 columns each, and a tile's
     * results.
     */
    static int gemmSwigluBytes() {
        int stageBytes = BOX_ROW_BYTES * (KernelConstants.SWIGLU_TILE_ROWS + KernelConstants.SWIGLU_TILE_WEIGHTS);
        return GEMM_SWIGLU_STAGES * stageBytes
                + KernelConstants.SWIGLU_TILE_ROWS * KernelConstants.SWIGLU_TILE_WEIGHTS / 2 * Short.BYTES;
    }

    /** The data types of the kernels of a compute capability. */
    public static List<DataType> types(int capability) {
        return capability < FIRST_WITH_BFLOAT16
                ? List.of(DataType.FLOAT16)
                : List.of(DataType.BFLOAT16, DataType.FLOAT16);
    }

    /**
     * Shapes that stand for all head sizes and groups: Llama-3.1-8B, Llama-2-7B, SmolLM2-135M, wide and odd heads,
     * Llama-3.1-70B, groups of 5 (Qwen2.5-32B), 7 (Qwen2.5-7B and, with heads of 64, 0.5B) and 6 (Qwen2.5-1.5B). Behind
     * them, for all variants, OLMo-3-32B, Gemma-3-27B and Gemma-3-270M, which has one KV head of 256.
     */
    public static List<ModelShape> models(DataType type) {
        return List.of(
                shape(32, 8, 128, 4096, 14336, 128256, type),
                shape(32, 32, 128, 4096, 11008, 32000, type),
                shape(9, 3, 64, 576, 1536, 49152, type),
                shape(16, 2, 256, 2048, 16384, 256000, type),
                shape(32, 32, 96, 3072, 8192, 32064, type),
                shape(40, 8, 80, 3200, 8704, 32000, type),
                shape(64, 8, 128, 8192, 28672, 128256, type),
                shape(40, 8, 128, 5120, 27648, 152064, type),
                shape(28, 4, 128, 3584, 18944, 152064, type),
                shape(14, 2, 64, 896, 4864, 151936, type),
                shape(12, 2, 128, 1536, 8960, 151936, type),
                new ModelShape(config(40, 8, 128, 5120, 27648, 100278, type), olmo3(128), type),
                new ModelShape(config(32, 16, 128, 5376, 21504, 262208, type), gemma3(128, 5376), type),
                new ModelShape(config(4, 1, 256, 640, 2048, 262144, type), gemma3(256, 640), type));
    }

    /** The variant of OLMo 3. */
    static DecoderVariant olmo3(int headDim) {
        RopeScaling yarn = new RopeScaling.Yarn(8, 32, 1, 8192, true);
        return new DecoderVariant(
                NormPlacement.AFTER,
                QkNorm.WHOLE_ROW,
                Activation.SILU,
                1,
                1,
                List.of(new Rope.Rotary(headDim, 5e5, yarn, 1.2), new Rope.Rotary(headDim, 5e5, RopeScaling.NONE, 1)));
    }

    /** The variant of Gemma 3. */
    static DecoderVariant gemma3(int headDim, int hidden) {
        RopeScaling linear = new RopeScaling.Linear(8);
        return new DecoderVariant(
                NormPlacement.BOTH,
                QkNorm.PER_HEAD,
                Activation.GELU_TANH,
                Math.sqrt(hidden),
                1,
                List.of(Rope.Rotary.plain(headDim), new Rope.Rotary(headDim, 1e6, linear, 1)));
    }

    private static ModelShape shape(
            int heads, int kvHeads, int headDim, int hidden, int intermediate, int vocabulary, DataType type) {
        return new ModelShape(config(heads, kvHeads, headDim, hidden, intermediate, vocabulary, type), type);
    }

    private static ModelConfig config(
            int heads, int kvHeads, int headDim, int hidden, int intermediate, int vocabulary, DataType type) {
        return new ModelConfig(
                "llama",
                hidden,
                1,
                heads,
                kvHeads,
                headDim,
                intermediate,
                vocabulary,
                4096,
                1e-5,
                Rope.Rotary.plain(headDim),
                false,
                false,
                false,
                List.of(),
                type,
                Set.of());
    }
}
