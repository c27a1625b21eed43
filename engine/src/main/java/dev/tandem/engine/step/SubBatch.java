package dev.tandem.engine.step;

import java.util.List;

/** Rows that pass through each layer's linear stages together. A step has one, or two that alternate (NEO §3.1). */
public record SubBatch(List<Chunk> chunks) {
    public SubBatch {
        chunks = List.copyOf(chunks);
    }

    public int rows() {
        int rows = 0;
        for (Chunk chunk : chunks) {
            rows += chunk.rows();
        }
        return rows;
    }
}
