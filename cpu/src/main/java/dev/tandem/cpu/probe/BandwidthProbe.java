package dev.tandem.cpu.probe;

import dev.tandem.cpu.decode.AmxLibrary;
import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeTask;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.decode.Partial;
import dev.tandem.cpu.simd.BandwidthKernels;
import dev.tandem.cpu.simd.Prefetch;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.stream.Stream;

/**
 * Reads the same blocks as attention would, in the same order and by the same workers, and does nothing with them; or
 * reads nothing and multiplies and adds as often.
 */
public final class BandwidthProbe implements PagedDecodeAttention {
    private static final long STEP = 512;
    private static final long PAGES = 16 << 10;

    private final BlockFormat format;
    private final int heads;
    private final Way way;
    private volatile long sink;

    /** How the blocks are read. */
    public enum Way {
        PLAIN("read"),
        /** Four pages side by side. */
        STREAMS("read, four streams"),
        /** With software prefetch; only where there is one. */
        PREFETCHED("read, prefetched"),
        /** The multiply-adds that the Vector API needs, on registers. */
        ARITHMETIC("multiply-adds");

        private final String label;

        Way(String label) {
            this.label = label;
        }
    }

    private BandwidthProbe(BlockFormat format, int heads, Way way) {
        this.format = format;
        this.heads = heads;
        this.way = way;
    }

    /** Every way that runs here; the best that reads is the roof. */
    public static List<BandwidthProbe> all(BlockFormat format, int heads) {
        return Stream.of(Way.values())
                .filter(way -> way != Way.PREFETCHED
                        || AmxLibrary.find().isPresent()
                        || Prefetch.missing().isEmpty())
                .map(way -> new BandwidthProbe(format, heads, way))
                .toList();
    }

    @Override
    public String name() {
        return way.label;
    }

    @Override
    public BlockFormat format() {
        return format;
    }

    @Override
    public int heads() {
        return heads;
    }

    @Override
    public Scratch scratch(Arena arena) {
        return new Scratch() {};
    }

    @Override
    public void partial(DecodeTask task, int first, int last, long next, Scratch scratch, Partial partial) {
        long sum = 0;
        for (int i = first; i < last; i++) {
            int tokens = Math.min(BlockFormat.TOKENS, task.context() - i * BlockFormat.TOKENS);
            long bytes = format.blockBytes() * tokens / BlockFormat.TOKENS;
            sum += switch (way) {
                case PLAIN -> BandwidthKernels.read(task.block(i), bytes / STEP * STEP);
                case STREAMS -> BandwidthKernels.readStreams(task.block(i), bytes / PAGES * PAGES);
                case PREFETCHED -> prefetched(task.block(i), bytes / STEP * STEP);
                case ARITHMETIC ->
                    (long) BandwidthKernels.multiplyAdd(
                            heads * format.headDim() * 2 * 2 * tokens / BandwidthKernels.flopsPerRound());
            };
        }
        sink = sum;
    }

    private static long prefetched(long address, long bytes) {
        return AmxLibrary.find().map(library -> library.read(address, bytes)).orElseGet(() ->
                (long) BandwidthKernels.readPrefetched(address, bytes));
    }

    /** Whether it reads memory at all. */
    public boolean reads() {
        return way != Way.ARITHMETIC;
    }

    /** Whether it goes through a block from end to end. */
    public boolean isSequential() {
        return way == Way.PLAIN || way == Way.PREFETCHED;
    }

    /** Keeps the reads from being optimised away. */
    public long sink() {
        return sink;
    }
}
