package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandles;

/**
 * The innermost loops of decode attention over a tile of a block ({@code decode.BlockFormat}), for 1, 2 or 4 query
 * heads that share each load: rows of K, a dimension or two each, become scores of tokens; rows of V, a token or two
 * each, become sums of dimensions.
 */
interface KvTileKernel {
    /** Tokens of a block, and factors of a head where V is added up. */
    int BLOCK = 64;
    /**
     * Bytes of a tile that all strips of it pass over before the next ones are touched: they stay in the first-level
     * cache. Broad vectors pass over a tile in few strips, and what is ahead is to be asked for in small pieces.
     */
    int CHUNK = Lanes.bits() >= 512 ? 2048 : 8192;

    /** Whose rows are added up. */
    enum Tile {
        K,
        V
    }

    /** What an instance is for. */
    record Kind(DataType type, Tile tile) {}

    /**
     * sums[head][lane] += the sum over rows of row[lane] times the head's factor.
     *
     * @param heads 1, 2 or 4
     * @param tile address of the first row
     * @param width bytes of a row
     * @param lanes of each row; of K as many more may be read and added to as make the last strip whole
     * @param factors of K's rows [rows][values a lane][heads], of V's [heads][{@link #BLOCK}], a lane's values one
     *     after the other
     * @param stride from head to head in the sums
     * @param ahead what will be read next, a piece of which is asked for before each strip
     */
    void add(
            int heads,
            long tile,
            int rows,
            int width,
            int lanes,
            float[] factors,
            int fo,
            float[] sums,
            int so,
            int stride,
            Prefetch.Ahead ahead);

    /**
     * Lanes that are added up at a time where so many are left: eight sums, so that sixteen registers are enough, or
     * sixteen.
     */
    static int strip(int heads, int left) {
        boolean broad = heads < 4 || Lanes.MANY_REGISTERS && left > 2 * Lanes.COUNT;
        return (broad ? 4 : 2) * Lanes.COUNT;
    }

    /** Loads the template for a type and a tile. */
    static KvTileKernel of(DataType type, Tile tile) {
        try (InputStream file = KvTileKernel.class.getResourceAsStream("KvTileKernelTemplate.class")) {
            MethodHandles.Lookup defined = MethodHandles.lookup()
                    .defineHiddenClassWithClassData(file.readAllBytes(), new Kind(type, tile), true);
            return (KvTileKernel) defined.lookupClass().getDeclaredConstructor().newInstance();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("the decode kernels cannot be made", e);
        }
    }
}
