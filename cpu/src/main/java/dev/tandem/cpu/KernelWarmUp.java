package dev.tandem.cpu;

import dev.tandem.cpu.attention.AttentionScratch;
import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.attention.PagedAttention;
import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.cpu.simd.GemmInput;
import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.PackedMatrix;
import dev.tandem.cpu.simd.PanelGemm;
import dev.tandem.cpu.simd.QuantFormat;
import dev.tandem.cpu.simd.RowOps;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvView;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * Runs the kernels on small data while the model is being loaded, so that the JIT compiler has compiled them when the
 * first request arrives. Without this the first prompt takes seconds: interpreted kernels allocate every vector.
 *
 * <p>Owned by: a thread of its own, which ends when the rounds are done.
 */
public final class KernelWarmUp {
    private static final int DEPTH = 64;
    private static final int ROUNDS = 400;

    private KernelWarmUp() {}

    /** Starts the warm-up on a daemon thread and returns at once. */
    public static void start() {
        Thread.ofPlatform().daemon().name("tandem-warm-up").start(KernelWarmUp::run);
    }

    private static void run() {
        try (Arena arena = Arena.ofConfined()) {
            int columns = Lanes.PANEL;
            PackedMatrix[] matrices = {
                // one of each width of quants
                quantised(QuantFormat.Q4_1, arena),
                quantised(QuantFormat.Q5_0, arena),
                quantised(QuantFormat.Q8_0, arena),
                new PackedMatrix.Plain(DEPTH, columns, DataType.FLOAT32, arena.allocate(4L * DEPTH * columns, 64))
            };
            long scratch = arena.allocate(PanelGemm.SCRATCH_BYTES, 64).address();
            KvStore store = new KvStore(KvTier.HOST, 2, 1, 1, DEPTH, DataType.FLOAT32, arena);
            AttentionScratch attention = new AttentionScratch(PagedAttention.TILE_ROWS, DEPTH, arena);
            PagedAttention.Rule rule = new PagedAttention.Rule(3, 0, 0.1);
            float[] x = new float[16 * DEPTH];
            Arrays.fill(x, 0.1f);
            GemmInput input = new GemmInput(ActivationPrecision.EXACT);
            float[] out = new float[16 * DEPTH];
            PagedAttention.Tile tile = new PagedAttention.Tile(
                    store, 0, 0, KvView.of(0, 1), 20, 2, rule, x, 0, 3 * DEPTH, out, 0, 3 * DEPTH);
            for (int round = 0; round < ROUNDS; round++) {
                for (PackedMatrix matrix : matrices) {
                    for (int rows = 1; rows <= 15; rows += 14) {
                        input.begin(matrix, rows, x, DEPTH);
                        for (int part = 0; part < input.parts(); part++) {
                            input.arrange(part);
                        }
                        PanelGemm.multiply(matrix, 0, 1, input, 0, rows, out, 0, columns, scratch);
                    }
                }
                RowOps.rmsNorm(x, 0, x, 1e-5f, DEPTH, out, 0);
                RowOps.swiGlu(x, 0, x, DEPTH, DEPTH, out, 0);
                RowOps.rotate(out, 0, x, x, 0, DEPTH / 2);
                PagedAttention.tile(tile, attention);
            }
        }
    }

    private static PackedMatrix.Quantised quantised(QuantFormat format, Arena arena) {
        PackedMatrix.Quantised shape = new PackedMatrix.Quantised(DEPTH, Lanes.PANEL, format, MemorySegment.NULL);
        return new PackedMatrix.Quantised(DEPTH, Lanes.PANEL, format, arena.allocate(shape.panelBytes(), 64));
    }
}
