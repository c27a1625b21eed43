package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import java.util.function.IntToDoubleFunction;

/**
 * Ends steps of prompts where GEMMs have whole tiles of rows, while requests wait. GEMMs compute whole tiles, and whole
 * waves of tiles, so their time rises in stairs: on eight multiprocessors of an H100, 385 rows take 1.22 times as long
 * as 384.
 *
 * @param linear seconds of a step's GEMMs by rows, in any unit
 */
public record WholeTiles(IntToDoubleFunction linear) {
    /** Ends no step early: every row costs the same. */
    public static final WholeTiles NONE = new WholeTiles(rows -> rows);

    /** Rows of a tile. */
    private static final int TILE = 64;
    /**
     * Min gain in rows per second for which a prompt is cut; its rest costs another read of its KV. Simulated on eight
     * multiprocessors of an H100, 0.1 gains 2 % less than this (docs/results/constants.jsonl).
     */
    private static final double MIN_GAIN = 0.03;

    /**
     * The rows at which the step should end: its own number, or the whole tiles among them if their GEMMs take less
     * time per row. Only rows of prompts are left to the next step, and only while other requests wait: a prompt alone
     * is computed at once. Where more than a tile is left, the step hides fewer host tokens, and that costs more than
     * it gains.
     */
    int end(StepDraft draft) {
        int rows = draft.totalRows();
        int whole = rows / TILE * TILE;
        int prompts = 0;
        int starting = 0;
        for (Row row : draft.rows(0)) {
            prompts += row.decodes() ? 0 : row.rows();
            starting += row.sequence().table().isEmpty() ? 1 : 0;
        }
        if (whole == 0 || prompts <= rows - whole || draft.state().waiting().size() <= starting) {
            return rows;
        }
        double gain = whole / linear.applyAsDouble(whole) / (rows / linear.applyAsDouble(rows)) - 1;
        return gain > MIN_GAIN ? whole : rows;
    }
}
