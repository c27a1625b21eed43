package dev.tandem.cpu;

import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.cpu.simd.GemmInput;
import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.PackedMatrix;
import dev.tandem.cpu.simd.PanelGemm;
import dev.tandem.cpu.topology.WorkerPool;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * GEMMs of activations with packed matrices on a pool of workers.
 *
 * <p>Owned by: engine thread.
 */
final class ParallelGemm {
    /**
     * Tasks per worker and block of rows. A task computes adjacent panels, because these share cache lines of the
     * output. With one panel per task two workers wrote the same lines in turn and were no faster than one worker.
     */
    private static final int TASKS_PER_WORKER = 4;
    /** The most matrices of one projection: q, k and v. */
    private static final int MAX_MATRICES = 3;

    private final WorkerPool workers;
    private final GemmInput[] inputs = new GemmInput[MAX_MATRICES];
    private final MemorySegment[] scratch;
    /** Per worker, a copy of a panel's outputs: where {@link PanelGemm#needsTile}, or of a panel that is not whole. */
    private final float[][] tiles;

    /**
     * @param precision of activations in GEMMs with quantised matrices
     * @param arena owns the scratch memory
     */
    ParallelGemm(WorkerPool workers, ActivationPrecision precision, Arena arena) {
        this.workers = workers;
        this.scratch = new MemorySegment[workers.size()];
        this.tiles = new float[workers.size()][];
        for (int i = 0; i < workers.size(); i++) {
            scratch[i] = arena.allocate(PanelGemm.SCRATCH_BYTES, 64);
            tiles[i] = new float[PanelGemm.MAX_ROWS * Lanes.PANEL];
        }
        for (int i = 0; i < MAX_MATRICES; i++) {
            inputs[i] = new GemmInput(precision);
        }
    }

    /**
     * Computes {@code out += x · [first matrix | second | …]}.
     *
     * @param matrices all of the same depth
     * @param x [rows, depth], rows {@code xs} apart
     * @param out [rows, the columns of all matrices], rows {@code os} apart
     */
    void add(List<PackedMatrix> matrices, int rows, float[] x, int xs, float[] out, int os) {
        GemmInput[] arranged = arrange(matrices, rows, x, xs);
        int panels = matrices.stream().mapToInt(PackedMatrix::panels).sum();
        int perTask = Math.max(1, panels / (workers.size() * TASKS_PER_WORKER));
        int[] lastRun = new int[matrices.size()];
        int runs = 0;
        for (int i = 0; i < lastRun.length; i++) {
            runs += (matrices.get(i).panels() + perTask - 1) / perTask;
            lastRun[i] = runs;
        }
        int runsPerBlock = runs;
        int rowBlocks = (rows + PanelGemm.MAX_ROWS - 1) / PanelGemm.MAX_ROWS;
        workers.run(runs * rowBlocks, (index, worker) -> {
            int from = index / runsPerBlock * PanelGemm.MAX_ROWS;
            int run = index % runsPerBlock;
            int at = from * os;
            int which = 0;
            while (run >= lastRun[which]) {
                at += matrices.get(which).columns();
                which++;
            }
            PackedMatrix matrix = matrices.get(which);
            int first = (which == 0 ? run : run - lastRun[which - 1]) * perTask;
            int last = Math.min(first + perTask, matrix.panels());
            int count = Math.min(PanelGemm.MAX_ROWS, rows - from);
            multiply(matrix, first, last, arranged[which], from, count, out, at, os, worker);
        });
    }

    /** Arranges the rows once for matrices that read them alike. */
    private GemmInput[] arrange(List<PackedMatrix> matrices, int rows, float[] x, int xs) {
        GemmInput[] arranged = new GemmInput[matrices.size()];
        for (int i = 0; i < arranged.length; i++) {
            int alike = 0;
            while (!GemmInput.alike(matrices.get(alike), matrices.get(i))) {
                alike++;
            }
            arranged[i] = inputs[alike];
            if (alike == i) {
                GemmInput input = inputs[i];
                input.begin(matrices.get(i), rows, x, xs);
                workers.run(input.parts(), (part, worker) -> input.arrange(part));
            }
        }
        return arranged;
    }

    /** Multiplies rows by panels {@code first .. last}; the matrix's outputs begin at {@code oo}. */
    private void multiply(
            PackedMatrix matrix,
            int first,
            int last,
            GemmInput input,
            int from,
            int rows,
            float[] out,
            int oo,
            int os,
            int worker) {
        long address = scratch[worker].address();
        int panel = first;
        if (!PanelGemm.needsTile(matrix, input, rows)) {
            panel = Math.min(last, matrix.columns() / Lanes.PANEL);
            int at = oo + first * Lanes.PANEL;
            PanelGemm.multiply(matrix, first, panel - first, input, from, rows, out, at, os, address);
        }
        // of a panel that is not whole, a direct result would overwrite outputs of the next matrix, or of the next row
        float[] tile = tiles[worker];
        for (; panel < last; panel++) {
            int at = oo + panel * Lanes.PANEL;
            int columns = Math.min(Lanes.PANEL, matrix.columns() - panel * Lanes.PANEL);
            for (int row = 0; row < rows; row++) {
                System.arraycopy(out, at + row * os, tile, row * Lanes.PANEL, columns);
            }
            PanelGemm.multiply(matrix, panel, 1, input, from, rows, tile, 0, Lanes.PANEL, address);
            for (int row = 0; row < rows; row++) {
                System.arraycopy(tile, row * Lanes.PANEL, out, at + row * os, columns);
            }
        }
    }
}
