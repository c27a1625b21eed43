package dev.tandem.cuda.forward;

import dev.tandem.cuda.kernels.ModelShape;

/**
 * How the thread blocks of a step's attention share its work. Where {@code together}, prompts' attention leaves
 * multiprocessors to decode attention, which then runs beside it: the one computes while the other waits for memory,
 * which it saturates with fewer than all. Where all together do not, neither has anything to leave.
 *
 * @param decodeBlocks thread blocks of decode attention that a multiprocessor holds at a time
 * @param bandwidth of the GPU's memory, bytes a microsecond
 */
public record SmPartition(ModelShape shape, int multiprocessors, int decodeBlocks, boolean together, double bandwidth) {
    public static final int MAX_PARTS = 512;
    /** Thread blocks of prefill attention that may share a tile. */
    private static final int MAX_SPLITS = 8;
    /** Tokens of a stage of prefill attention; tiles.cu. */
    private static final int STAGE_TOKENS = 64;
    /**
     * Microseconds as measured on an H200: a stage of a tile's context, and the beginning and end of a part, with what
     * adding it up takes.
     */
    private static final double STAGE_MICROS = 1.3;

    private static final double PART_MICROS = 9.5;
    private static final double SHARED_PART_MICROS = 12;
    /**
     * Likewise: the beginning and end of decode attention, and the bytes a microsecond that a multiprocessor reads, of
     * the bandwidth at most a share. Since its parts say that they are there it takes less, but with less here steps in
     * which prompts ride were no faster.
     */
    private static final double DECODE_MICROS = 9;

    private static final double MULTIPROCESSOR_BYTES = 60_000;
    private static final double BANDWIDTH_SHARE = 0.9;
    /** Beside each other they must take less than so much of what they take one after the other. */
    private static final double WORTH_IT = 0.95;
    /**
     * Thread blocks of prompts take so many parts one after the other at most; decode attention keeps one of so many
     * multiprocessors.
     */
    private static final int MAX_TURNS = 4;

    private static final int MIN_DECODE_SHARE = 4;

    /**
     * How prompts' attention is cut.
     *
     * @param blocks that take parts; all multiprocessors where it does not pay to leave some to decode attention
     * @param splits blocks that share a tile's context
     */
    public record Prompts(int blocks, int splits) {}

    /**
     * @param leavesRoom whether there is a kernel of prompts' attention that can leave multiprocessors to decode
     *     attention
     * @param bandwidth 0 where the driver does not tell it: then nothing is known that would pay
     */
    public static SmPartition of(
            ModelShape shape, int multiprocessors, int decodeBlocks, boolean leavesRoom, double bandwidth) {
        boolean saturates = bandwidth > 0 && multiprocessors * MULTIPROCESSOR_BYTES > BANDWIDTH_SHARE * bandwidth;
        return new SmPartition(shape, multiprocessors, decodeBlocks, leavesRoom && saturates, bandwidth);
    }

    /** Thread blocks of decode attention that all multiprocessors hold at a time. */
    public int attentionBlocks() {
        return multiprocessors * decodeBlocks;
    }

    /** Stages of the context of a tile whose last token is at {@code end - 1}. */
    public static int stages(int end) {
        return (end + STAGE_TOKENS - 1) / STAGE_TOKENS;
    }

    /**
     * Thread blocks that share a tile's context, so that a short chunk keeps all multiprocessors at work.
     *
     * @param tiles of the launch, of which {@code rows} rows fill some
     */
    int promptSplits(int tiles, int rows) {
        int filled = Math.min(tiles, rows / shape.tileTokens() + 1);
        return fitting(tiles, Math.min(MAX_SPLITS, multiprocessors / (filled * kvHeads())));
    }

    private int fitting(int tiles, int splits) {
        return splits > 1 && tiles * kvHeads() * splits <= MAX_PARTS ? splits : 1;
    }

    private int kvHeads() {
        return shape.config().kvHeads();
    }

    /**
     * So that both end soonest.
     *
     * @param units KV blocks of all (row, KV head) of decode attention
     * @param tiles of prompts, of which there are some
     * @param stages of all tiles, of one KV head
     */
    public Prompts prompts(int units, int tiles, int stages) {
        Prompts best = new Prompts(
                multiprocessors, fitting(tiles, Math.min(MAX_SPLITS, multiprocessors / (tiles * kvHeads()))));
        if (units == 0) {
            return best;
        }
        double min = WORTH_IT * (promptMicros(best, tiles, stages) + decodeMicros(units, multiprocessors));
        for (int splits = 1; splits <= MAX_SPLITS && fitting(tiles, splits) == splits; splits++) {
            for (int turns = 1; turns <= MAX_TURNS; turns++) {
                Prompts some = new Prompts((tiles * kvHeads() * splits + turns - 1) / turns, splits);
                int left = multiprocessors - some.blocks();
                if (left * MIN_DECODE_SHARE < multiprocessors) {
                    continue;
                }
                double micros = Math.max(promptMicros(some, tiles, stages), decodeMicros(units, left));
                if (micros < min) {
                    min = micros;
                    best = some;
                }
            }
        }
        return best;
    }

    private double promptMicros(Prompts cut, int tiles, int stages) {
        int parts = tiles * kvHeads() * cut.splits();
        int turns = (parts + cut.blocks() - 1) / cut.blocks();
        double part = cut.splits() == 1 ? PART_MICROS : SHARED_PART_MICROS;
        return turns * (part + STAGE_MICROS * stages / tiles / cut.splits());
    }

    private double decodeMicros(int units, int some) {
        double bytes = (double) units * shape.blockBytes() / kvHeads();
        return DECODE_MICROS + bytes / Math.min(some * MULTIPROCESSOR_BYTES, BANDWIDTH_SHARE * bandwidth);
    }
}
