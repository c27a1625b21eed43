package dev.tandem.cuda.kernels;

import dev.tandem.cuda.ModelShape;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.RopeScaling;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * Which sources a model needs on a GPU, and with which options; and representative models, for compiling everything that
 * could be needed on a machine without GPU.
 */
public final class KernelCatalogue {
    /** Compute capability with tensor copy engine and programmatic launches. */
    static final int COPY_ENGINE = 90;
    /** Compute capability whose thread blocks form clusters. */
    static final int CLUSTERS = 90;
    /** Compute capability with asynchronous products of groups of warps, which later ones do not have: its code is compiled for it alone. */
    static final int WARP_GROUPS = 90;
    /**
     * Ring of stream.cu. Two blocks share a multiprocessor, of which they take no more than 196 KiB with what each has beside its
     * ring: one size further, the first-level cache is too small for the attention that follows (a sixth slower).
     */
    static final int RING_BYTES = 96 << 10;
    /** Ring of broad.cu, whose blocks have a multiprocessor to themselves. */
    static final int BROAD_RING_BYTES = 192 << 10;
    /** Stages of broad.cu's blocks of 256 weight rows, and the rows from which these are worth having. */
    static final int TALL_STAGES = 4;
    static final int LEAST_TALL_ROWS = 128;
    /** Of many.cu, whose blocks have a multiprocessor to themselves too. */
    private static final int MANY_STAGES = 4;
    /** Kernels exist for these; the first has no bfloat16. */
    public static final List<Integer> CAPABILITIES = List.of(75, 80, 86, 89, 90, 100, 120);
    private static final int FIRST_WITH_BFLOAT16 = 80;

    /** A source with its options. */
    public record Unit(String source, List<String> defines) {}

    private KernelCatalogue() {}

    /** Shared memory that a block may ask for, by compute capability (CUDA programming guide, technical specifications). */
    public static int sharedMemory(int capability) {
        return switch (capability) {
            case 75 -> 64 << 10;
            case 80 -> 163 << 10;
            case 86, 89, 120 -> 99 << 10;
            default -> 227 << 10;
        };
    }

    /** What a GPU does without, in words. */
    public static List<String> givenUp(int capability) {
        if (capability < COPY_ENGINE) {
            return List.of("the tensor copy engine and overlapped launches, which need compute capability 9.0");
        }
        return capability == WARP_GROUPS
                ? List.of()
                : List.of("asynchronous products of groups of warps, which are written for compute capability 9.0 alone",
                        "certainty: the kernels compile for GPUs of this generation and have been run on none");
    }

    /** Sources in a fixed order: row-wise, decode, prefill, sample, flights, then products by ascending rows: skinny, stream, broad, many. */
    public static List<Unit> units(ModelShape shape, int capability, int sharedMemory) {
        List<String> common = shape.defines();
        Prefill prefill = prefill(shape, capability, sharedMemory);
        List<Unit> units = new ArrayList<>();
        units.add(new Unit("rows", common));
        units.add(new Unit("decode", common));
        units.add(with(prefill.source(), common, "-DSTAGES=" + prefill.stages()));
        units.add(new Unit("sample", common));
        units.add(new Unit("flights", common));
        for (int tiles : Kernels.TILES) {
            units.add(with("skinny", common, "-DTILES=" + tiles));
        }
        for (int tiles : capability >= COPY_ENGINE ? Kernels.TILES : List.<Integer>of()) {
            units.add(with("stream", common, "-DTILES=" + tiles, "-DSTAGES_OF_RING=" + RING_BYTES / stageBytes(tiles)));
        }
        for (int rows : capability == WARP_GROUPS ? Kernels.BROAD_ROWS : List.<Integer>of()) {
            units.add(with(
                    "broad", common, "-DTOKENS=" + rows, "-DSTRIP_STAGES=" + BROAD_RING_BYTES / broadStageBytes(rows),
                    "-DTALL_STAGES=" + (rows < LEAST_TALL_ROWS ? 0 : TALL_STAGES)));
        }
        if (capability == WARP_GROUPS) {
            units.add(with("many", common, "-DSTAGES=" + MANY_STAGES));
        }
        return units;
    }

    /**
     * Which source a model's prefill attention is of, and how its kernel is launched.
     *
     * @param stages of K and V in shared memory
     * @param persistent whether its blocks take one part of a tile after the other
     */
    record Prefill(String source, int threads, int stages, boolean persistent) {}

    static Prefill prefill(ModelShape shape, int capability, int sharedMemory) {
        if (capability == WARP_GROUPS && (shape.headWidth() == 64 || shape.headWidth() == 128)) {
            return new Prefill("prefill_groups", 384, 4, true);
        }
        return new Prefill("prefill", 256, 2 * shape.stageBytes() <= sharedMemory ? 2 : 1, false);
    }

    private static Unit with(String source, List<String> common, String... more) {
        List<String> defines = new ArrayList<>(common);
        defines.addAll(List.of(more));
        return new Unit(source, defines);
    }

    /** A stage of stream.cu: 128 rows of weights and the rows of x, 64 columns each. */
    static int stageBytes(int tiles) {
        return 128 * (128 + 8 * tiles);
    }

    /** A stage of broad.cu, likewise. */
    static int broadStageBytes(int rows) {
        return 128 * (128 + rows);
    }

    /** Likewise, of blocks of 256 weight rows. */
    static int tallStageBytes(int rows) {
        return 128 * (256 + rows);
    }

    /** Shared memory of many.cu: stages of 128 rows of x and 256 of weights, 64 columns each, and a tile's results. */
    static int manyBytes() {
        return MANY_STAGES * 128 * (128 + 256) + 128 * 128 * 2;
    }

    /** Data types that kernels of a compute capability have. */
    public static List<DataType> types(int capability) {
        return capability < FIRST_WITH_BFLOAT16
                ? List.of(DataType.FLOAT16)
                : List.of(DataType.BFLOAT16, DataType.FLOAT16);
    }

    /** Shapes that stand for all head sizes and groups: Llama-3.1-8B, Llama-2-7B, SmolLM2-135M, and wide and odd heads. */
    public static List<ModelShape> models(DataType type) {
        return List.of(
                shape(32, 8, 128, 4096, 14336, 128256, type),
                shape(32, 32, 128, 4096, 11008, 32000, type),
                shape(9, 3, 64, 576, 1536, 49152, type),
                shape(16, 2, 256, 2048, 16384, 256000, type),
                shape(32, 32, 96, 3072, 8192, 32064, type),
                shape(40, 8, 80, 3200, 8704, 32000, type));
    }

    private static ModelShape shape(int heads, int kvHeads, int headDim, int hidden, int intermediate, int vocabulary, DataType type) {
        return new ModelShape(
                new ModelConfig(
                        "llama", hidden, 1, heads, kvHeads, headDim, intermediate, vocabulary, 4096, 1e-5, 10_000, RopeScaling.NONE,
                        false, false, false, 0, type, Set.of()),
                type);
    }
}
