package dev.tandem.engine.kv;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * How the KV of a model's layers is divided into groups whose blocks are granted and freed by themselves.
 *
 * <p>All layers of a group have the same sliding window, or none. All groups have the same number of layers, so a page,
 * the memory of one block in one group's layers, is as large in each: one pool of pages serves all groups. In a model
 * with one kind of layers, the one group has all of them, and a page is a block with the KV of all layers.
 *
 * <p>The number of layers per group is the largest that divides the number of layers of each window. So no page has
 * room for a layer that does not exist, and a request never takes more memory than in blocks of all layers: Gemma 3
 * 270M has 3 layers per group, in 1 group without and 5 groups with a window.
 *
 * <p>Owned by: any thread, immutable.
 */
public final class KvLayout {
    /**
     * All groups whose layers have the same window. They hold the same tokens.
     *
     * @param window which part of a sequence's KV these groups hold
     * @param first index of the first group
     * @param groups how many there are
     */
    public record Kind(KvWindow window, int first, int groups) {
        /** Index of the first block that a sequence holds, in blocks of as many tokens. */
        public int firstHeld(int computed, int blockTokens) {
            return window.start(computed) / blockTokens;
        }

        /** The index after the last group. */
        public int end() {
            return first + groups;
        }
    }

    private final List<Kind> kinds;
    private final int groups;
    /** [layers] empty for one group of all layers. */
    private final int[] groupOfLayer;
    /** [layers] the layer's index among those of its group. */
    private final int[] indexOfLayer;

    private KvLayout(List<Kind> kinds, int[] groupOfLayer, int[] indexOfLayer) {
        this.kinds = List.copyOf(kinds);
        this.groups = kinds.getLast().end();
        this.groupOfLayer = groupOfLayer;
        this.indexOfLayer = indexOfLayer;
    }

    /** One group of all layers, which hold the same part of a sequence's KV. */
    public static KvLayout of(KvWindow window) {
        return new KvLayout(List.of(new Kind(window, 0, 1)), new int[0], new int[0]);
    }

    /**
     * The groups of a model.
     *
     * @param windows of each layer, 0 for none; empty when no layer has one
     * @param unit as in {@link KvWindow}
     * @param maxChunk as in {@link KvWindow}
     */
    public static KvLayout of(List<Integer> windows, int unit, int maxChunk) {
        if (windows.stream().distinct().count() <= 1) {
            return of(windows.isEmpty() ? KvWindow.NONE : window(windows.getFirst(), unit, maxChunk));
        }
        // layers that hold most come first
        List<Integer> distinct = windows.stream()
                .distinct()
                .sorted(Comparator.comparingInt(window -> window == 0 ? Integer.MIN_VALUE : -window))
                .toList();
        int perGroup = layersPerGroup(windows);
        int[] groupOfLayer = new int[windows.size()];
        int[] indexOfLayer = new int[windows.size()];
        List<Kind> kinds = new ArrayList<>();
        int first = 0;
        for (int window : distinct) {
            int count = 0;
            for (int layer = 0; layer < windows.size(); layer++) {
                if (windows.get(layer) == window) {
                    groupOfLayer[layer] = first + count / perGroup;
                    indexOfLayer[layer] = count++ % perGroup;
                }
            }
            kinds.add(new Kind(window(window, unit, maxChunk), first, count / perGroup));
            first += count / perGroup;
        }
        return new KvLayout(kinds, groupOfLayer, indexOfLayer);
    }

    private static KvWindow window(int tokens, int unit, int maxChunk) {
        return tokens == 0 ? KvWindow.NONE : new KvWindow(tokens, unit, maxChunk);
    }

    private static int layersPerGroup(List<Integer> windows) {
        return windows.stream()
                .distinct()
                .map(window -> BigInteger.valueOf(
                        windows.stream().filter(window::equals).count()))
                .reduce(BigInteger.ZERO, BigInteger::gcd)
                .intValue();
    }

    /** The groups by their window; those that hold most of a sequence come first. */
    public List<Kind> kinds() {
        return kinds;
    }

    /** How many groups there are, so how many pages hold the KV of a block of tokens in all layers. */
    public int groups() {
        return groups;
    }

    /**
     * Blocks of all layers that are as large as some pages, rounded up. Users read of such blocks: the tokens that a
     * pool holds are its blocks times the tokens per block.
     */
    public int blocks(int pages) {
        return Math.ceilDiv(pages, groups);
    }

    /** The group of a layer. */
    public int groupOf(int layer) {
        return groupOfLayer.length == 0 ? 0 : groupOfLayer[layer];
    }

    /** The index of a layer among the layers of its group. */
    public int indexOf(int layer) {
        return indexOfLayer.length == 0 ? layer : indexOfLayer[layer];
    }

    /** The window of the layers that hold most of a sequence. */
    public KvWindow widest() {
        return kinds.getFirst().window();
    }

    /** Whether the layers of some group free KV behind a window. */
    public boolean slides() {
        return kinds.getLast().window().slides();
    }

    /** The same for steps that compute at most {@code rows} tokens of a sequence. */
    public KvLayout withMaxChunk(int rows) {
        List<Kind> shorter = kinds.stream()
                .map(kind -> new Kind(kind.window().withMaxChunk(rows), kind.first(), kind.groups()))
                .toList();
        return new KvLayout(shorter, groupOfLayer, indexOfLayer);
    }

    /** Computed tokens whose KV a sequence holds, as a mean over the layers. */
    public int heldTokens(int computed) {
        long sum = 0;
        for (Kind kind : kinds) {
            sum += (long) kind.groups() * (computed - kind.window().start(computed));
        }
        return (int) (sum / groups());
    }

    /** Max pages that a sequence of {@code length} tokens holds at a time, in blocks of {@code blockTokens} tokens. */
    public int maxHeld(int length, int blockTokens) {
        long pages = 0;
        for (Kind kind : kinds) {
            int tokens = Math.min(length, kind.window().maxHeld());
            pages += (long) kind.groups() * Math.ceilDiv(tokens, blockTokens);
        }
        return (int) Math.min(pages, Integer.MAX_VALUE);
    }

    /**
     * A view per group of a sequence that holds all of its blocks, if each block's pages follow each other.
     *
     * @param blocks numbers of whole blocks: block i has the pages from i times {@link #groups} on
     */
    public List<KvView> views(int[] blocks) {
        List<KvView> views = new ArrayList<>(groups());
        for (int group = 0; group < groups(); group++) {
            int[] pages = new int[blocks.length];
            for (int i = 0; i < pages.length; i++) {
                pages[i] = blocks[i] * groups() + group;
            }
            views.add(new KvView(0, pages));
        }
        return views;
    }
}
