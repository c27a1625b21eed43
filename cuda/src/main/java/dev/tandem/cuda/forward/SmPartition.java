package dev.tandem.cuda.forward;

import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.cuda.kernels.ModelShape;

/**
 * Partitions the multiprocessors between prefill attention and decode attention of a step. Where {@code together}, the
 * two run side by side: prefill attention is bound by arithmetic, and decode attention by memory bandwidth, which some
 * of the multiprocessors saturate. Where even all multiprocessors do not saturate it, running side by side gains
 * nothing.
 *
 * @param decodeBlocks thread blocks of decode attention that a multiprocessor holds at a time
 * @param together whether the two run side by side
 * @param bandwidth of the GPU's memory, in bytes per microsecond
 */
public record SmPartition(ModelShape shape, int multiprocessors, int decodeBlocks, boolean together, double bandwidth) {
    /** Max partial results of prefill attention in a launch. */
    public static final int MAX_PARTIALS = 512;
    /** Max thread blocks of prefill attention that share a tile. */
    private static final int MAX_SPLITS = 8;
    /** Microseconds of a stage of a tile's context; like the next constants measured on an H200. */
    private static final double STAGE_MICROS = 1.0;

    /** Microseconds of the start and end of a work unit. */
    private static final double UNIT_MICROS = 9.5;
    /** Likewise, with the merge of its partial result. */
    private static final double SHARED_UNIT_MICROS = 12;
    /**
     * Microseconds of the start and end of decode attention. It starts and ends faster since its partial results signal
     * completion in-band, but a smaller value made steps with piggybacked prefill no faster.
     */
    private static final double DECODE_MICROS = 9;

    /** Bytes per microsecond that a multiprocessor reads. */
    private static final double MULTIPROCESSOR_BYTES = 60_000;
    /** Max fraction of the memory bandwidth that decode attention reaches. */
    private static final double MAX_BANDWIDTH_FRACTION = 0.9;
    /** Max time side by side that counts as a gain, over the time one after the other. */
    private static final double MAX_TIME_RATIO = 0.95;
    /** Max work units that a thread block of prefill attention computes in turn. */
    private static final int MAX_TURNS = 4;

    /** Divides the multiprocessors: decode attention keeps at least one in so many. */
    private static final int DECODE_DIVISOR = 4;

    /**
     * The partition of prefill attention.
     *
     * @param blocks thread blocks; as many as multiprocessors where leaving some to decode attention gains nothing
     * @param splits blocks that share a tile's context
     */
    public record Prompts(int blocks, int splits) {}

    /**
     * The partition for a GPU.
     *
     * @param leavesRoom whether this GPU's prefill attention can leave multiprocessors to decode attention
     * @param bandwidth 0 where the driver does not report it; then the two never run side by side
     */
    public static SmPartition of(
            ModelShape shape, int multiprocessors, int decodeBlocks, boolean leavesRoom, double bandwidth) {
        boolean saturates =
                bandwidth > 0 && multiprocessors * MULTIPROCESSOR_BYTES > MAX_BANDWIDTH_FRACTION * bandwidth;
        return new SmPartition(shape, multiprocessors, decodeBlocks, leavesRoom && saturates, bandwidth);
    }

    /** Thread blocks of decode attention that all multiprocessors hold at a time. */
    public int attentionBlocks() {
        return multiprocessors * decodeBlocks;
    }

    /** Stages of the context of a tile whose last token is at {@code end - 1}. */
    public static int stages(int end) {
        return (end + KernelConstants.STAGE_TOKENS - 1) / KernelConstants.STAGE_TOKENS;
    }

    /**
     * Thread blocks that share a tile's context, so that a short chunk keeps all multiprocessors busy.
     *
     * @param tiles of the launch, including padding
     * @param rows of the launch, which fill some of the tiles
     */
    int promptSplits(int tiles, int rows) {
        int filled = Math.min(tiles, rows / shape.tileTokens() + 1);
        return fitting(tiles, Math.min(MAX_SPLITS, multiprocessors / (filled * kvHeads())));
    }

    private int fitting(int tiles, int splits) {
        return splits > 1 && tiles * kvHeads() * splits <= MAX_PARTIALS ? splits : 1;
    }

    private int kvHeads() {
        return shape.config().kvHeads();
    }

    /**
     * The partition with which prefill and decode attention both end soonest.
     *
     * @param units KV blocks of all (row, KV head) of decode attention
     * @param tiles of prefill attention, at least one
     * @param stages of all tiles, per KV head
     */
    public Prompts prompts(int units, int tiles, int stages) {
        Prompts best = new Prompts(
                multiprocessors, fitting(tiles, Math.min(MAX_SPLITS, multiprocessors / (tiles * kvHeads()))));
        if (units == 0) {
            return best;
        }
        double min = MAX_TIME_RATIO * (promptMicros(best, tiles, stages) + decodeMicros(units, multiprocessors));
        for (int splits = 1; splits <= MAX_SPLITS && fitting(tiles, splits) == splits; splits++) {
            for (int turns = 1; turns <= MAX_TURNS; turns++) {
                Prompts candidate = new Prompts((tiles * kvHeads() * splits + turns - 1) / turns, splits);
                int left = multiprocessors - candidate.blocks();
                if (left * DECODE_DIVISOR < multiprocessors) {
                    continue;
                }
                double micros = Math.max(promptMicros(candidate, tiles, stages), decodeMicros(units, left));
                if (micros < min) {
                    min = micros;
                    best = candidate;
                }
            }
        }
        return best;
    }

    private double promptMicros(Prompts prompts, int tiles, int stages) {
        int work = tiles * kvHeads() * prompts.splits();
        int turns = (work + prompts.blocks() - 1) / prompts.blocks();
        double fixed = prompts.splits() == 1 ? UNIT_MICROS : SHARED_UNIT_MICROS;
        return turns * (fixed + STAGE_MICROS * stages / tiles / prompts.splits());
    }

    private double decodeMicros(int units, int multiprocessors) {
        double bytes = (double) units * shape.layerBlockBytes() / kvHeads();
        return DECODE_MICROS
                + bytes / Math.min(multiprocessors * MULTIPROCESSOR_BYTES, MAX_BANDWIDTH_FRACTION * bandwidth);
    }
}
