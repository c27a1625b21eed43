package dev.tandem.cpu.attention;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.reference.ReferenceOps;
import dev.tandem.cpu.simd.Unpack;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvView;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Paged attention against the scalar reference, for head sizes, groups, odd lengths and types; tiling changes no bits.
 */
class PagedAttentionTest {
    static Stream<Arguments> shapes() {
        return Stream.of(DataType.values())
                .flatMap(type -> Stream.of(
                        Arguments.of(type, 64, 3, 1, 0),
                        Arguments.of(type, 64, 3, 16, 0),
                        Arguments.of(type, 64, 1, 17, 0),
                        Arguments.of(type, 80, 4, 33, 0),
                        Arguments.of(type, 96, 2, 100, 0),
                        Arguments.of(type, 128, 4, 47, 0),
                        Arguments.of(type, 128, 8, 5, 0),
                        Arguments.of(type, 192, 6, 37, 0),
                        Arguments.of(type, 256, 12, 31, 0),
                        Arguments.of(type, 24, 3, 64, 0),
                        Arguments.of(type, 64, 1, 100, 1),
                        Arguments.of(type, 64, 2, 100, 16),
                        Arguments.of(type, 64, 1, 97, 33),
                        Arguments.of(type, 256, 4, 70, 20),
                        Arguments.of(type, 80, 1, 40, 39),
                        // more than one segment; a tile over the border of two; windows from one segment to the next
                        Arguments.of(type, 64, 2, 300, 0),
                        Arguments.of(type, 64, 1, 259, 0),
                        Arguments.of(type, 128, 3, 800, 0),
                        Arguments.of(type, 64, 1, 290, 34),
                        Arguments.of(type, 64, 2, 515, 300)));
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void matchesTheReference(DataType type, int headDim, int group, int context, int window) {
        SplittableRandom random = new SplittableRandom(context * 1000L + headDim);
        int kvHeads = 2;
        int blockCount = (context + KvStore.BLOCK_TOKENS - 1) / KvStore.BLOCK_TOKENS;
        try (Arena arena = Arena.ofConfined()) {
            KvStore store = new KvStore(KvTier.HOST, blockCount + 3, 2, kvHeads, headDim, type, arena);
            int[] blocks = new int[blockCount];
            for (int i = 0; i < blockCount; i++) {
                blocks[i] = (i * 2 + 1) % (blockCount + 3) == 0 ? 0 : blockCount + 2 - i;
            }
            poison(store, blocks, kvHeads, headDim);
            float[][][] keys = new float[kvHeads][context][];
            float[][][] values = new float[kvHeads][context][];
            PagedAttention.Rule rule = new PagedAttention.Rule(group, window, 1 / Math.sqrt(headDim));
            int tokens = Math.min(context, PagedAttention.tileTokens(group));
            // blocks before the window stay NaN: they must not be read
            int read = window == 0 ? 0 : Math.max(0, context - tokens + 1 - window) / 16 * 16;
            for (int token = read; token < context; token++) {
                for (int head = 0; head < kvHeads; head++) {
                    keys[head][token] = stored(type, headDim, random);
                    values[head][token] = stored(type, headDim, random);
                    store.append(1, blocks[token / 16], token % 16, head, keys[head][token], 0, values[head][token], 0);
                }
            }
            KvView held = new KvView(read / 16, Arrays.copyOfRange(blocks, read / 16, blockCount));
            int first = context - tokens;
            int row = kvHeads * group * headDim;
            float[] queries = new float[tokens * row];
            for (int i = 0; i < queries.length; i++) {
                queries[i] = (float) (2 * random.nextDouble() - 1);
            }
            float[] out = new float[tokens * row];
            AttentionScratch scratch = new AttentionScratch(PagedAttention.maxRows(group), headDim, arena);
            int kvHead = 1;
            int offset = kvHead * group * headDim;
            PagedAttention.tile(
                    new PagedAttention.Tile(
                            store, 1, kvHead, held, first, tokens, rule, queries, offset, row, out, offset, row),
                    scratch);
            for (int token = 0; token < tokens; token++) {
                int limit = first + token + 1;
                int visible = window == 0 ? 0 : Math.max(0, limit - window);
                for (int head = 0; head < group; head++) {
                    int at = token * row + offset + head * headDim;
                    double[] expected = ReferenceOps.attention(
                            Arrays.copyOfRange(queries, at, at + headDim),
                            Arrays.copyOfRange(keys[kvHead], visible, limit),
                            Arrays.copyOfRange(values[kvHead], visible, limit));
                    assertThat(relativeError(out, at, expected))
                            .as("token %d head %d", token, head)
                            .isLessThan(1e-5);
                }
                float[] alone = new float[tokens * row];
                int from = token * row + offset;
                PagedAttention.tile(
                        new PagedAttention.Tile(
                                store, 1, kvHead, held, first + token, 1, rule, queries, from, row, alone, from, row),
                        scratch);
                assertThat(Arrays.copyOfRange(alone, from, from + group * headDim))
                        .as("a token alone gives the same bits as in its tile")
                        .isEqualTo(Arrays.copyOfRange(out, from, from + group * headDim));
            }
        }
    }

    /** fp16 values are widened with a shift, which alone would turn infinities and NaN into finite numbers. */
    @ParameterizedTest
    @EnumSource(DataType.class)
    void kvThatIsNotFiniteMakesTheResultNaN(DataType type) {
        for (float broken : new float[] {Float.NaN, Float.POSITIVE_INFINITY, 1e6f, -1e6f}) {
            if (Math.abs(broken) == 1e6f && type != DataType.FLOAT16) {
                continue; // 1e6 is infinite in fp16 only
            }
            for (boolean inKey : new boolean[] {true, false}) {
                try (Arena arena = Arena.ofConfined()) {
                    KvStore store = new KvStore(KvTier.HOST, 2, 1, 1, 64, type, arena);
                    float[] ones = new float[64];
                    Arrays.fill(ones, 1);
                    for (int token = 0; token < 20; token++) {
                        float[] other = ones.clone();
                        if (token == 3) {
                            other[17] = broken;
                        }
                        store.append(0, token / 16, token % 16, 0, inKey ? other : ones, 0, inKey ? ones : other, 0);
                    }
                    float[] out = new float[64];
                    KvView blocks = KvView.of(0, 1);
                    PagedAttention.Rule rule = new PagedAttention.Rule(1, 0, 0.125);
                    PagedAttention.tile(
                            new PagedAttention.Tile(store, 0, 0, blocks, 19, 1, rule, ones, 0, 64, out, 0, 64),
                            new AttentionScratch(PagedAttention.maxRows(1), 64, arena));
                    assertThat(Float.isFinite(out[17]))
                            .as("%s in %s", broken, inKey ? "K" : "V")
                            .isFalse();
                }
            }
        }
    }

    /** Fills all slots with NaN, which an earlier owner of the blocks may have left. */
    private static void poison(KvStore store, int[] blocks, int kvHeads, int headDim) {
        float[] nan = new float[headDim];
        Arrays.fill(nan, Float.NaN);
        for (int block : blocks) {
            for (int slot = 0; slot < KvStore.BLOCK_TOKENS; slot++) {
                for (int head = 0; head < kvHeads; head++) {
                    store.append(1, block, slot, head, nan, 0, nan, 0);
                }
            }
        }
    }

    private static float[] stored(DataType type, int size, SplittableRandom random) {
        float[] values = new float[size];
        for (int i = 0; i < size; i++) {
            float value = (float) (4 * random.nextDouble() - 2);
            values[i] = switch (type) {
                case FLOAT32 -> value;
                case BFLOAT16 -> Float.intBitsToFloat(Unpack.toBf16(value) << 16);
                case FLOAT16 -> Float.float16ToFloat(Float.floatToFloat16(value));
            };
        }
        return values;
    }

    private static double relativeError(float[] actual, int from, double[] expected) {
        double difference = 0;
        double norm = 0;
        for (int i = 0; i < expected.length; i++) {
            difference += Math.pow(actual[from + i] - expected[i], 2);
            norm += expected[i] * expected[i];
        }
        return Math.sqrt(difference / norm);
    }
}
