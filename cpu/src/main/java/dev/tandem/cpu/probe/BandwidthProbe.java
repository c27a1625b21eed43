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
 * Measures a bound of decode attention in its place. It reads the KV blocks that attention would read, in the same
 * order and on the same workers, without computing; or it does the multiply-adds of attention without reading.
 */
public final class BandwidthProbe implements PagedDecodeAttention {
    /** {@link BandwidthKernels#read} takes multiples of this many bytes. */
    private static final long READ_UNIT = 512;
    /** {@link BandwidthKernels#readStreams} takes multiples of this many bytes. */
    private static final long STREAMS_UNIT = 16 << 10;

    private final BlockFormat format;
    private final int heads;
    private final Mode mode;
    private volatile long sink;

    /** What a probe does instead of attention. */
    public enum Mode {
        /** Reads each block from its beginning to its end. */
        PLAIN("read"),
        /** Reads four pages of a block side by side. */
        STREAMS("read, four streams"),
        /** Reads with software prefetch, on machines that have it. */
        PREFETCHED("read, prefetched"),
        /** Does as many multiply-adds as the Vector API kernel, on registers. */
        ARITHMETIC("multiply-adds");

        private final String label;

        Mode(String label) {
            this.label = label;
        }
    }

    private BandwidthProbe(BlockFormat format, int heads, Mode mode) {
        this.format = format;
        this.heads = heads;
        this.mode = mode;
    }

    /** Returns a probe per mode that this machine supports; the fastest that reads gives the peak read bandwidth. */
    public static List<BandwidthProbe> all(BlockFormat format, int heads) {
        return Stream.of(Mode.values())
                .filter(mode -> mode != Mode.PREFETCHED
                        || AmxLibrary.find().isPresent()
                        || Prefetch.missing().isEmpty())
                .map(mode -> new BandwidthProbe(format, heads, mode))
                .toList();
    }

    @Override
    public String name() {
        return mode.label;
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
            sum += switch (mode) {
                case PLAIN -> BandwidthKernels.read(task.block(i), bytes / READ_UNIT * READ_UNIT);
                case STREAMS -> BandwidthKernels.readStreams(task.block(i), bytes / STREAMS_UNIT * STREAMS_UNIT);
                case PREFETCHED -> prefetched(task.block(i), bytes / READ_UNIT * READ_UNIT);
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

    /** Whether this probe reads memory. */
    public boolean reads() {
        return mode != Mode.ARITHMETIC;
    }

    /** Whether this probe reads a block from its beginning to its end. */
    public boolean isSequential() {
        return mode == Mode.PLAIN || mode == Mode.PREFETCHED;
    }

    /** A value that depends on the reads, which keeps the compiler from removing them. */
    public long sink() {
        return sink;
    }
}
