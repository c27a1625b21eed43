package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandles;

/**
 * The innermost loops of decode attention over one tile of a host KV block ({@code decode.BlockFormat}). They sum the
 * tile's rows, each times a factor, for 1, 2 or 4 query heads that share each load. Rows of K, of one or two dims each,
 * give scores of tokens. Rows of V, of one or two tokens each, give weighted sums of dims.
 */
interface KvTileKernel {
    /** Tokens per block, which is also the number of a head's factors for a V tile. */
    int BLOCK = 64;
    /**
     * Bytes of a tile, in whole rows, that all strips of lanes are computed over before the next bytes are read: they
     * stay in the first-level cache. Each strip of a chunk also prefetches one piece of the next tile.
     *
     * <p>Measured with 512 bits on Sapphire Rapids: 2 KiB is fastest; 1 KiB, and 4 or 8 KiB for GQA, are slower,
     * because wide vectors have few strips and the prefetch then comes in coarse pieces. With 256 bits on Zen 3: 8 KiB
     * is faster than 4 or 16 KiB.
     */
    int CHUNK = Lanes.bits() >= 512 ? 2048 : 8192;

    /** Which tile of a block the rows are from. */
    enum Tile {
        K,
        V
    }

    /** The data type and tile that an instance is compiled for. */
    record Kind(DataType type, Tile tile) {}

    /**
     * Computes {@code sums[head][lane] += Σ_row row[lane] · factor[head][row]}.
     *
     * @param heads query heads: 1, 2 or 4
     * @param tile address of the first row
     * @param width bytes per row
     * @param lanes 32-bit lanes per row; for K, the lanes that complete the last strip are read and added to as well
     * @param factors from {@code fo}: for K [rows][values per lane][heads]; for V [heads][{@link #BLOCK}], with the
     *     values of one lane next to each other
     * @param sums from {@code so}, heads {@code stride} apart
     * @param ahead what will be read next; a piece of it is prefetched before each strip
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
     * The number of lanes of the next strip. A strip keeps eight vectors of sums, for which sixteen registers are
     * enough, or sixteen.
     *
     * @param left lanes that are left
     */
    static int strip(int heads, int left) {
        boolean wide = heads < 4 || Lanes.MANY_REGISTERS && left > 2 * Lanes.COUNT;
        return (wide ? 4 : 2) * Lanes.COUNT;
    }

    /** Loads {@link KvTileKernelTemplate} as a class of its own for a type and a tile. */
    static KvTileKernel of(DataType type, Tile tile) {
        try (InputStream file = KvTileKernel.class.getResourceAsStream("KvTileKernelTemplate.class")) {
            MethodHandles.Lookup defined = MethodHandles.lookup()
                    .defineHiddenClassWithClassData(file.readAllBytes(), new Kind(type, tile), true);
            return (KvTileKernel) defined.lookupClass().getDeclaredConstructor().newInstance();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(
                    "the decode attention kernel for " + type + ", tile " + tile + ", cannot be loaded", e);
        }
    }
}
