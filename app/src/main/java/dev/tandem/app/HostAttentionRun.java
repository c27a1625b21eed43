package dev.tandem.app;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeImplementations;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.probe.BandwidthProbe;
import dev.tandem.cuda.tune.AttentionBenchmark;
import dev.tandem.engine.clock.Clock;
import dev.tandem.model.config.DataType;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** Measures the implementations of host attention that run on this machine, with given numbers of threads. */
final class HostAttentionRun {
    static final List<Shape> SHAPES =
            List.of(new Shape("gqa-32-8-128", 32, 8, 128), new Shape("mha-32-32-128", 32, 32, 128));

    /** Long enough for the JIT to compile the loops and for the pages to be touched. */
    private static final Duration WARM_UP = Duration.ofMillis(1_500);

    record Shape(String name, int heads, int kvHeads, int headDim) {}

    /** Number of host tokens per step, and of KV tokens per host token. */
    record Size(int batch, int context) {}

    record Row(
            Shape shape,
            DataType type,
            Size size,
            String implementation,
            int threads,
            AttentionBenchmark.Result measured) {
        @Override
        public String toString() {
            return String.format(
                    Locale.ROOT,
                    "%-14s %-9s %-12s %3d x %,6d, %2d threads: reads %6.1f GB/s, arithmetic %6.1f,"
                            + " attention %6.1f, %.2f of the peak (%.2f of a sequential read), %.1f us",
                    shape.name(),
                    type.flag(),
                    implementation,
                    size.batch(),
                    size.context(),
                    threads,
                    measured.peakBandwidth(),
                    measured.arithmetic(),
                    measured.kernel(),
                    measured.fractionOfPeak(),
                    measured.fractionOfSequentialRead(),
                    measured.micros());
        }
    }

    private final String implementation;
    private final List<Integer> threads;
    private final int rounds;

    /** @param implementation name of the only one to measure; empty for all */
    HostAttentionRun(String implementation, List<Integer> threads, int rounds) {
        this.implementation = implementation;
        this.threads = threads;
        this.rounds = rounds;
    }

    List<Row> measure(Shape shape, DataType type, Size size) {
        List<Row> rows = new ArrayList<>();
        BlockFormat format = new BlockFormat(shape.kvHeads(), shape.headDim(), type);
        try (AttentionBenchmark benchmark = new AttentionBenchmark(
                format, shape.heads(), size.batch(), size.context(), rounds, 1, WARM_UP, Clock.system())) {
            List<BandwidthProbe> readers = BandwidthProbe.all(format, shape.heads());
            for (PagedDecodeAttention attention : DecodeImplementations.all(format, shape.heads())) {
                if (implementation.isEmpty() || implementation.equals(attention.name())) {
                    for (int count : threads) {
                        Row row = new Row(
                                shape,
                                type,
                                size,
                                attention.name(),
                                count,
                                benchmark.measure(attention, readers, count));
                        if (!row.measured().pinned()) {
                            System.err.println("note: The " + count + " threads are not bound to cores: there are fewer"
                                    + " cores, or a CPU quota. Results vary more.");
                        }
                        rows.add(row);
                    }
                }
            }
        }
        return rows;
    }
}
