package dev.tandem.engine.step;

import dev.tandem.engine.kv.PrefillStaging;
import java.util.List;

/**
 * Tokens that pass each layer's GEMMs together. A step has one sub-batch, or two that alternate (NEO §3.1).
 *
 * @param chunks tokens by sequence
 * @param staging GPU blocks that hold the KV of offloaded prefills in transit; nobody owns them, and the step may use
 *     them until it ends ({@link PrefillStaging})
 */
public record SubBatch(List<Chunk> chunks, int[] staging) {
    /** Copies the list. */
    public SubBatch {
        chunks = List.copyOf(chunks);
    }

    /** A sub-batch that stages nothing. */
    public SubBatch(List<Chunk> chunks) {
        this(chunks, new int[0]);
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
