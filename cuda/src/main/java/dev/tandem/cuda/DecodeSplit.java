package dev.tandem.cuda;

/**
 * How decode attention is cut into work for the GPU: pieces of context small enough that all multiprocessors are busy to
 * the end, large enough that merging them costs little.
 */
final class DecodeSplit {
    /** A warp's KV block at a time, so pieces of fewer tokens leave warps idle. */
    private static final int LEAST = 64;
    /** Up to here one piece a resident block is best: all begin and end together. */
    private static final int ONE_WAVE = 1024;
    /** Pieces a resident block takes one after another otherwise. */
    private static final int WAVES = 8;
    /** A warp keeps the numbers of its KV blocks one a lane: 4 x 32 x 16 tokens. */
    static final int MOST = 1024;

    private DecodeSplit() {}

    /**
     * @param tokens of context of all rows
     * @param residentBlocks thread blocks that run at a time
     * @return tokens a piece may have
     */
    static int pieceTokens(long tokens, int kvHeads, int residentBlocks) {
        double share = (double) tokens * kvHeads / residentBlocks;
        double piece = share <= ONE_WAVE ? share * 1.05 : Math.max(share / WAVES, 2 * LEAST);
        return (int) Math.max(LEAST, Math.min(MOST, Math.ceil(piece / ModelShape.BLOCK_TOKENS) * ModelShape.BLOCK_TOKENS));
    }

    /** Most pieces a step of so many rows and tokens can need. */
    static int mostPieces(int rows, int kvHeads, int residentBlocks, long tokens) {
        long byShare = (long) residentBlocks * WAVES / kvHeads + 1;
        return (int) Math.min(1 << 20, rows + Math.max(byShare, tokens / MOST + 1));
    }
}
