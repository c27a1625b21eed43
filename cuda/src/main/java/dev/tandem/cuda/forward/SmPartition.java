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
    /** Microseconds of a stage of a tile's context; like the next constants measured on an H200. */
    private static final double STAGE_MICROS = 1.3;

    /** Microseconds of the start and end of a work unit. */
    private static final double UNIT_MICROS = 9.5;
    /** Likewise, of a part of one, with the merge of its partial result. */
    private static final double SHARED_UNIT_MICROS = 12;
    /** Max parts of a work unit, as in tiles.cu. */
    private static final int MAX_PARTS = 8;
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
    /** Divides the multiprocessors: decode attention keeps at least one in so many. */
    private static final int DECODE_DIVISOR = 4;

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

    private int kvHeads() {
        return shape.config().kvHeads();
    }

    /**
     * The thread blocks of prefill attention with which prefill and decode attention both end soonest; as many as
     * multiprocessors where leaving some to decode attention gains nothing.
     *
     * @param units KV blocks of all (row, KV head) of decode attention
     * @param tiles of prefill attention, at least one
     * @param stages of all tiles, per KV head
     */
    public int promptBlocks(int units, int tiles, int stages) {
        int best = multiprocessors;
        if (units == 0) {
            return best;
        }
        double min = MAX_TIME_RATIO * (promptMicros(best, tiles, stages) + decodeMicros(units, multiprocessors));
        for (int blocks = 1; (multiprocessors - blocks) * DECODE_DIVISOR >= multiprocessors; blocks++) {
            double micros =
                    Math.max(promptMicros(blocks, tiles, stages), decodeMicros(units, multiprocessors - blocks));
            if (micros < min) {
                min = micros;
                best = blocks;
            }
        }
        return best;
    }

    /** Units in turn, as many as all thread blocks get alike, then the others whole or in equal shares (tiles.cu). */
    private double promptMicros(int blocks, int tiles, int stages) {
        int units = tiles * kvHeads();
        int rest = units % blocks;
        double unitMicros = STAGE_MICROS * stages / tiles;
        double inTurn = units / blocks * (UNIT_MICROS + unitMicros);
        if (rest == 0) {
            return inTurn;
        }
        double share = Math.max((double) rest / blocks, 1.0 / MAX_PARTS) * unitMicros;
        return inTurn + Math.min(UNIT_MICROS + unitMicros, SHARED_UNIT_MICROS + share);
    }

    private double decodeMicros(int units, int multiprocessors) {
        double bytes = (double) units * shape.layerBlockBytes() / kvHeads();
        return DECODE_MICROS
                + bytes / Math.min(multiprocessors * MULTIPROCESSOR_BYTES, MAX_BANDWIDTH_FRACTION * bandwidth);
    }
}
