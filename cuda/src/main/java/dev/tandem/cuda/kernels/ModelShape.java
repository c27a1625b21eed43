package dev.tandem.cuda.kernels;

import static dev.tandem.cuda.kernels.KernelConstants.define;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.model.config.Activation;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.QkNorm;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * A model's widths as the GPU stores them: multiples of 32, so that no kernel has a tail. The padding is zero in all
 * weights and stays zero in all activations.
 *
 * @param variant what the kernels compute beside the sizes
 * @param type bfloat16 or float16
 */
public record ModelShape(ModelConfig config, DecoderVariant variant, DataType type) {
    private static final int STEP = 32;
    /** Tokens of a GPU KV block. */
    public static final int BLOCK_TOKENS = KernelConstants.BLOCK_TOKENS;

    private static final int MAX_GROUP = 16;
    /** Dimensions of V that {@code move_out} and {@code move_in} move at a time. */
    private static final int HEAD_STEP = 4;
    /** Max threads that share a head's norm. */
    private static final int WARP = 32;

    /** @throws CudaException that names the flag or the shape that does not fit */
    public ModelShape {
        if (type == DataType.FLOAT32) {
            throw new CudaException("--dtype float32 is not available on the GPU; use bfloat16 or float16");
        }
        if (config.headDim() % HEAD_STEP != 0) {
            throw new CudaException("heads of " + config.headDim() + " are no multiple of " + HEAD_STEP
                    + ", which moving KV to the host needs; run on the CPU with --device cpu");
        }
        if (config.group() > MAX_GROUP || config.headDim() > 256 || lanes(config.headDim()) > WARP) {
            throw new CudaException("heads of " + config.headDim() + " in groups of " + config.group()
                    + " are beyond the GPU kernels (256, multiples of 8 from 132 on, groups of " + MAX_GROUP
                    + "); run on the CPU with --device cpu");
        }
    }

    /**
     * The sizes alone: the variant is that of Llama and Qwen.
     *
     * @throws CudaException that names the flag or the shape that does not fit
     */
    public ModelShape(ModelConfig config, DataType type) {
        this(config, DecoderVariant.llama(config), type);
    }

    /**
     * The shape of a model, with its variant.
     *
     * @throws CudaException that names the flag or the shape that does not fit
     */
    public static ModelShape of(ModelSpec spec, DataType type) {
        return new ModelShape(spec.config(), DecoderVariant.of(spec), type);
    }

    /**
     * Checks that the kernels compute what the model needs.
     *
     * @throws CudaException that names what they lack
     */
    public static void require(ModelSpec spec) {
        lacking(spec).ifPresent(what -> {
            throw new CudaException("the model's family, " + spec.family() + ", needs " + what
                    + ", which the GPU kernels do not have; run on the CPU with --device cpu");
        });
    }

    /** What the kernels lack to compute a model; empty if nothing. */
    public static Optional<String> lacking(ModelSpec spec) {
        DecoderVariant variant = DecoderVariant.of(spec);
        if (variant.queryScale() != 1 && variant.qkNorm() == QkNorm.NONE) {
            return Optional.of("another factor of scores than 1 / sqrt(head_dim) without a norm of queries");
        }
        if (windows(spec.config()).count() > 1) {
            return Optional.of("sliding windows of different sizes");
        }
        return Optional.empty();
    }

    private static IntStream windows(ModelConfig config) {
        return config.windows().stream()
                .mapToInt(Integer::intValue)
                .filter(window -> window > 0)
                .distinct();
    }

    /** The sliding window of the layers that have one; 0 if none has. */
    public int window() {
        return windows(config).findFirst().orElse(0);
    }

    private static int padded(int width) {
        return (width + STEP - 1) / STEP * STEP;
    }

    public int hidden() {
        return padded(config.hidden());
    }

    public int headWidth() {
        return padded(config.headDim());
    }

    public int intermediate() {
        return padded(config.intermediate());
    }

    public int vocabulary() {
        return padded(config.vocabulary());
    }

    /** Width of all query heads. */
    public int queries() {
        return config.heads() * headWidth();
    }

    /** Width of q, k and v together. */
    public int qkv() {
        return (config.heads() + 2 * config.kvHeads()) * headWidth();
    }

    /**
     * Which layers share pages, and how much KV they hold.
     *
     * @param maxChunk max tokens of a sequence that a step computes
     */
    public KvLayout layout(int maxChunk) {
        return KvLayout.of(config.windows(), BlockFormat.TOKENS, maxChunk);
    }

    /** Layers whose KV a page has: those of a group of {@link #layout}. */
    public int layersPerPage() {
        return config.layers() / layout(1).groups();
    }

    /** Bytes of a KV block: all layers of its tokens. */
    public long blockBytes() {
        return layerBlockBytes() * config.layers();
    }

    /** Bytes of one layer's part of a KV block. */
    public long layerBlockBytes() {
        return 2L * config.kvHeads() * headWidth() * BLOCK_TOKENS * type.bytes();
    }

    /** KV bytes of one token over all layers. */
    public long kvBytesPerToken() {
        return blockBytes() / BLOCK_TOKENS;
    }

    /** How many pages a step borrows to offload prefills. */
    public PrefillStaging staging() {
        return new PrefillStaging(BLOCK_TOKENS, BlockFormat.TOKENS, layersPerPage());
    }

    /** Bytes of shared memory that a stage of K and V of prefill attention takes. */
    public int stageBytes() {
        return 2 * KernelConstants.STAGE_TOKENS * headWidth() * type.bytes();
    }

    /** Warps per thread block of decode attention: the sums of more would exceed its static shared memory. */
    public int decodeWarps() {
        return config.group() * headWidth() > 2560 ? 2 : 4;
    }

    /** Values of fp32 in each thread's part of a partial result of prefill attention. */
    public int partialValues() {
        return headWidth() / 2 + 4;
    }

    /** Prompt tokens of one tile of prefill attention. */
    public int tileTokens() {
        return KernelConstants.PREFILL_ROWS / config.group();
    }

    /** Values per half of a head that a thread of {@code rope_store} rotates. */
    private static int rotated(int headDim) {
        return headDim % 8 == 0 ? 4 : 2;
    }

    private static int lanes(int headDim) {
        int threads = headDim / 2 / rotated(headDim);
        return Integer.highestOneBit(2 * threads - 1);
    }

    /** Threads per head of {@code rope_store}, a power of two. */
    public int headLanes() {
        return lanes(config.headDim());
    }

    /** Factor of attention scores, which also turns exponentials into powers of 2. */
    public float scoreScale() {
        return (float) (1 / (Math.sqrt(config.headDim()) * Math.log(2)));
    }

    /** Compiler options that specialise the kernels. */
    public List<String> defines() {
        List<String> defines = new ArrayList<>(KernelConstants.defines());
        defines.addAll(List.of(
                define("BF16", type == DataType.BFLOAT16 ? 1 : 0),
                define("LAYERS_PER_PAGE", layersPerPage()),
                define("HIDDEN", hidden()),
                define("HIDDEN_REAL", config.hidden()),
                define("HEADS", config.heads()),
                define("KV_HEADS", config.kvHeads()),
                define("GROUP", config.group()),
                define("HEAD_DIM", config.headDim()),
                define("HEAD_WIDTH", headWidth()),
                define("PART_VALUES", partialValues()),
                define("ROTATED", rotated(config.headDim())),
                define("HEAD_LANES", headLanes()),
                define("INTERMEDIATE", intermediate()),
                define("VOCABULARY", vocabulary()),
                define("VOCABULARY_REAL", config.vocabulary()),
                define("WINDOWS", window() > 0 ? 1 : 0),
                define("DECODE_WARPS", decodeWarps()),
                define("NORMS_ON_INPUTS", variant.norms().onInputs() ? 1 : 0),
                define("NORMS_ON_OUTPUTS", variant.norms().onOutputs() ? 1 : 0),
                define("QK_NORM_ROWS", variant.qkNorm() == QkNorm.WHOLE_ROW ? 1 : 0),
                define("ROTATIONS", variant.rotations().size()),
                define("ROTATION_FACTORS", variant.hasRotationFactors() ? 1 : 0),
                define("GELU", variant.activation() == Activation.GELU_TANH ? 1 : 0),
                define("EMBEDDING_SCALE", (float) variant.embeddingScale())));
        return List.copyOf(defines);
    }
}
