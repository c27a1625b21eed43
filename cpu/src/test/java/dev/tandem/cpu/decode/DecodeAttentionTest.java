package dev.tandem.cpu.decode;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Every implementation against float64: relative L2 at most 1e-5 for the Vector API, 1e-4 for AMX. */
class DecodeAttentionTest {
    private static final int[] CONTEXTS = {1, 2, 15, 63, 64, 65, 127, 200, 513};

    static Stream<Arguments> shapes() {
        List<Arguments> all = new ArrayList<>();
        for (DataType type : DataType.values()) {
            for (int headDim : new int[] {64, 80, 96, 128, 192, 256}) {
                all.add(Arguments.of(type, headDim, 2, 4));
            }
            for (int group = 1; group <= 16; group++) {
                all.add(Arguments.of(type, 64, 3, group));
            }
        }
        return all.stream();
    }

    private static List<PagedDecodeAttention> implementations(BlockFormat format, int heads) {
        return DecodeImplementations.all(format, heads);
    }

    private static double bound(PagedDecodeAttention attention) {
        return attention.name().startsWith("vector") ? 1e-5 : 1e-4;
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void resultsMatchFloat64(DataType type, int headDim, int kvHeads, int group) {
        BlockFormat format = new BlockFormat(kvHeads, headDim, type);
        for (PagedDecodeAttention attention : implementations(format, kvHeads * group)) {
            for (int window : new int[] {0, 1, 16, 50, 64, 130}) {
                try (Arena arena = Arena.ofConfined()) {
                    RandomDecodeTasks tasks =
                            new RandomDecodeTasks(format, kvHeads * group, CONTEXTS, window, true, 7, arena);
                    run(attention, tasks, arena);
                    for (int i = 0; i < CONTEXTS.length; i++) {
                        assertThat(tasks.error(i))
                                .as("%s, %s, context %d, window %d", attention.name(), format, CONTEXTS[i], window)
                                .isLessThanOrEqualTo(bound(attention));
                    }
                }
            }
        }
    }

    private static void run(PagedDecodeAttention attention, RandomDecodeTasks tasks, Arena arena) {
        PagedDecodeAttention.Scratch scratch = attention.scratch(arena);
        Partial partial = new Partial(attention.heads(), attention.format().headDim());
        Partial sum = new Partial(attention.heads(), attention.format().headDim());
        for (DecodeTask task : tasks.all) {
            attention.run(task, 0, scratch, partial, sum);
        }
    }

    static Stream<DataType> types() {
        return Stream.of(DataType.values());
    }

    @ParameterizedTest
    @MethodSource("types")
    void segmentsOfLongContextsAreMerged(DataType type) {
        BlockFormat format = new BlockFormat(1, 64, type);
        int[] contexts = {4096, 4097, 9000};
        for (PagedDecodeAttention attention : implementations(format, 2)) {
            for (int window : new int[] {0, 2000, 2049, 5000}) {
                try (Arena arena = Arena.ofConfined()) {
                    RandomDecodeTasks tasks = new RandomDecodeTasks(format, 2, contexts, window, false, 3, arena);
                    run(attention, tasks, arena);
                    for (int i = 0; i < contexts.length; i++) {
                        assertThat(tasks.error(i))
                                .as("%s, context %d, window %d", attention.name(), contexts[i], window)
                                .isLessThanOrEqualTo(bound(attention));
                    }
                }
            }
        }
    }

    /** The fp16 kernels, and powers of two by bits, would turn such values into finite numbers. */
    @ParameterizedTest
    @MethodSource("types")
    void aTaskWithAValueThatIsNotFiniteGivesNaN(DataType type) {
        BlockFormat format = new BlockFormat(3, 80, type);
        for (PagedDecodeAttention attention : implementations(format, 6)) {
            for (float broken : new float[] {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY}) {
                for (int where = 0; where < 3; where++) {
                    try (Arena arena = Arena.ofConfined()) {
                        RandomDecodeTasks tasks =
                                new RandomDecodeTasks(format, 6, new int[] {65, 100}, 0, true, 3, arena);
                        DecodeTask task = tasks.all[0];
                        long last = where == 0 ? task.q : where == 1 ? task.k : task.v;
                        format.store(last + (239L + (where == 0 ? 240 : 0)) * type.bytes(), broken);
                        run(attention, tasks, arena);
                        String what = attention.name() + ", " + type + ", " + broken + " in " + "qkv".charAt(where);
                        assertThat(tasks.out.getAtIndex(ValueLayout.JAVA_FLOAT, 0))
                                .as(what)
                                .isNaN();
                        assertThat(tasks.out.getAtIndex(ValueLayout.JAVA_FLOAT, 479))
                                .as(what)
                                .isNaN();
                        assertThat(tasks.error(1)).as("the next task, %s", what).isLessThanOrEqualTo(bound(attention));
                    }
                }
            }
        }
    }

    /**
     * Scores that rise from block to block.
     *
     * @param step a quarter of the rise per block, which is too small for a new reference score each time, or so large
     *     that a block outweighs all blocks before it
     */
    @ParameterizedTest
    @ValueSource(floats = {0.5f, 1, 10})
    void risingScoresOutweighEarlierBlocks(float step) {
        BlockFormat format = new BlockFormat(1, 64, DataType.FLOAT32);
        for (PagedDecodeAttention attention : implementations(format, 1)) {
            try (Arena arena = Arena.ofConfined()) {
                RandomDecodeTasks tasks = new RandomDecodeTasks(format, 1, new int[] {300}, 0, false, 5, arena);
                DecodeTask task = tasks.all[0];
                for (int t = 0; t < 300; t++) {
                    for (int d = 0; d < 64; d++) {
                        float q = format.load(task.q + 4L * d);
                        format.store(task.blocks[t / 64] + format.key(0, t % 64, d), Math.signum(q) * (t / 64) * step);
                    }
                }
                run(attention, tasks, arena);
                assertThat(tasks.error(0))
                        .as("%s, step %s", attention.name(), step)
                        .isLessThanOrEqualTo(bound(attention));
            }
        }
    }

    @ParameterizedTest
    @MethodSource("types")
    void offloadedPrefillIsReadBackUnchanged(DataType type) {
        SplittableRandom random = new SplittableRandom(11);
        for (int headDim : new int[] {64, 80, 128}) {
            BlockFormat format = new BlockFormat(2, headDim, type);
            try (Arena arena = Arena.ofConfined()) {
                int tokens = 1 + random.nextInt(64);
                long bytes = (long) tokens * 2 * headDim * type.bytes();
                MemorySegment in = arena.allocate(2 * bytes, 64);
                for (long i = 0; i < in.byteSize(); i++) {
                    in.set(ValueLayout.JAVA_BYTE, i, (byte) random.nextInt());
                }
                MemorySegment block = arena.allocate(format.blockBytes(), 64);
                block.fill((byte) 0xFF);
                format.finish(block.address(), tokens, in.address(), in.address() + bytes);
                MemorySegment out = arena.allocate(2 * bytes, 64);
                format.take(block.address(), tokens, out.address(), out.address() + bytes);
                assertThat(out.mismatch(in)).as("%s, %d tokens", format, tokens).isEqualTo(-1);
                for (int t = tokens; t < BlockFormat.TOKENS; t++) {
                    assertThat(format.load(block.address() + format.value(1, t, headDim - 1)))
                            .isZero();
                }
            }
        }
    }

    @Test
    void everyValueHasItsOwnAddress() {
        for (DataType type : DataType.values()) {
            for (int headDim : new int[] {64, 80, 96, 128, 192, 256}) {
                BlockFormat format = new BlockFormat(2, headDim, type);
                BitSet seen = new BitSet();
                for (int head = 0; head < 2; head++) {
                    for (int token = 0; token < BlockFormat.TOKENS; token++) {
                        for (int dim = 0; dim < headDim; dim++) {
                            for (long at : new long[] {format.key(head, token, dim), format.value(head, token, dim)}) {
                                assertThat(at).isBetween(0L, format.blockBytes() - type.bytes());
                                assertThat(seen.get((int) at)).isFalse();
                                seen.set((int) at);
                            }
                        }
                    }
                }
            }
        }
    }

    @Test
    void unsupportedShapesAreRejected() {
        assertThatThrownBy(() -> new BlockFormat(2, 72, DataType.BFLOAT16)).hasMessageContaining("multiple of 16");
        assertThatThrownBy(() -> new VectorDecodeAttention(new BlockFormat(3, 64, DataType.BFLOAT16), 4))
                .hasMessageContaining("4 query heads do not divide among 3 KV heads");
    }
}
