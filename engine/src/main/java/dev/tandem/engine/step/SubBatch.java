package dev.tandem.engine.step;

import java.util.List;

/**
 * Tokens that pass each layer's GEMMs together. A step has one sub-batch, or two that alternate (NEO §3.1).
 *
 * @param chunks tokens by sequence
 */
public record SubBatch(List<Chunk> chunks) {
    /** Copies the list. */
    public SubBatch {
        chunks = List.copyOf(chunks);
    }

    /** Number of tokens. */
    public int rows() {
        int rows = 0;
        for (Chunk chunk : chunks) {
            rows += chunk.rows();
        }
        return rows;
    }
}
