package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandles;
import java.util.EnumMap;
import java.util.Map;

/** The inner loops of decode attention over one KV head of one block, for one data type. */
public interface DecodeKernel {
    /** Query heads that share each load. */
    int MOST_HEADS = 4;

    /** Exponent of the factor that stored values come out too small by; fp16 has it, see {@link #of}. */
    int HALF_EXPONENT = 112;

    /** In how many pieces one {@link #scores} and one {@link #weigh} ask for what is ahead. */
    int pieces(int heads, int keyRows, int headDim, int tokens);

    /**
     * Scores of up to 64 tokens.
     *
     * @param heads 1, 2 or 4
     * @param k address of the head's K tile
     * @param keyRows rows of it that hold dims
     * @param tokens that are there; scores of others are anything
     * @param q [keyRows][values a lane][heads], scaled
     * @param s [heads, 64]
     * @param ahead what will be read next, a piece of which is asked for now and then
     */
    void scores(int heads, long k, int keyRows, int tokens, float[] q, int qo, float[] s, int so, Prefetch.Ahead ahead);

    /**
     * Adds weighted values.
     *
     * @param v address of the head's V tile
     * @param tokens that are there; one more may be read, and is zero
     * @param p [heads, 64]
     * @param o [heads, headDim] sums
     * @param ahead as for {@link #scores}
     */
    void weigh(int heads, long v, int headDim, int tokens, float[] p, int po, float[] o, int oo, Prefetch.Ahead ahead);

    /**
     * The kernel of a type. fp16 values come out 2^-{@value #HALF_EXPONENT} times too small: a shift and a mask widen
     * them, and the caller's scales make up for it.
     */
    static DecodeKernel of(DataType type) {
        return Kernels.BY_TYPE.get(type);
    }

    /** Loads the template once a type. */
    final class Kernels {
        private static final Map<DataType, DecodeKernel> BY_TYPE = load();

        private Kernels() {}

        private static Map<DataType, DecodeKernel> load() {
            Map<DataType, DecodeKernel> kernels = new EnumMap<>(DataType.class);
            try (InputStream file = DecodeKernel.class.getResourceAsStream("DecodeKernelTemplate.class")) {
                byte[] bytes = file.readAllBytes();
                for (DataType type : DataType.values()) {
                    MethodHandles.Lookup defined = MethodHandles.lookup().defineHiddenClassWithClassData(bytes, type, true);
                    kernels.put(type, (DecodeKernel) defined.lookupClass().getDeclaredConstructor().newInstance());
                }
                return kernels;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException("the decode kernels cannot be made", e);
            }
        }
    }
}
