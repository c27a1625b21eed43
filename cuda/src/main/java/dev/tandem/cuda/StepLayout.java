package dev.tandem.cuda;

import dev.tandem.engine.batch.Chunk;
import java.util.List;

/**
 * How the rows of a step lie: those of one-row chunks first, for they share decode attention, then prompts; and how
 * attention is cut into work.
 */
final class StepLayout {
    /** KV blocks below which spreading decode attention further costs more in merging than it saves. */
    private static final int BLOCKS_A_WARP = 2;

    private final ModelShape shape;
    private final int attentionBlocks;

    /** @param attentionBlocks thread blocks of decode attention that the GPU holds at a time */
    StepLayout(ModelShape shape, int attentionBlocks) {
        this.shape = shape;
        this.attentionBlocks = attentionBlocks;
    }

    /**
     * Writes a step's inputs.
     *
     * @param chunks those of one row first
     * @param sampled receives the chunks whose last row is sampled, in the order of the samples
     * @return rows of decode attention
     */
    int fill(StepBuffer inputs, List<Chunk> chunks, List<Chunk> sampled) {
        inputs.clear();
        int row = 0;
        int decodes = 0;
        for (Chunk chunk : chunks) {
            int count = chunk.rows();
            int length = chunk.start() + count;
            int table = inputs.table(chunk.blocks(), (length - 1) / ModelShape.BLOCK_TOKENS + 1);
            for (int i = 0; i < count; i++) {
                int position = chunk.start() + i;
                int block = chunk.blocks()[position / ModelShape.BLOCK_TOKENS];
                inputs.row(row + i, chunk.tokens()[i], position, block * ModelShape.BLOCK_TOKENS + position % ModelShape.BLOCK_TOKENS);
            }
            if (count == 1) {
                inputs.decode(length, table, shape.config().kvHeads());
                decodes++;
            } else {
                tiles(inputs, row, count, chunk.start(), table, shape.tileTokens());
            }
            row += count;
            if (chunk.sampler().isPresent()) {
                inputs.sample(sampled.size(), row - 1);
                sampled.add(chunk);
            }
        }
        spread(inputs);
        return decodes;
    }

    /** Fills a decode step up to the rows of its graph: rows that store nothing and that nobody looks at. */
    static void pad(StepBuffer inputs, int rows, int bucket) {
        for (int row = rows; row < bucket; row++) {
            inputs.row(row, 0, 0, -1);
            inputs.sample(row, row);
        }
    }

    void spread(StepBuffer inputs) {
        inputs.spread(attentionBlocks, BLOCKS_A_WARP * shape.decodeWarps());
    }

    /** The last tile of a chunk sees the longest context: it begins first. */
    static void tiles(StepBuffer inputs, int row, int count, int start, int table, int tileTokens) {
        for (int from = (count - 1) / tileTokens * tileTokens; from >= 0; from -= tileTokens) {
            inputs.tile(row + from, Math.min(tileTokens, count - from), start + from, table);
        }
    }
}
