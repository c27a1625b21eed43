package dev.tandem.engine.kv;

import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;

/**
 * How many tokens attention reads, as a mean over the layers: layers with a sliding window read no more than that.
 *
 * <p>Owned by: any thread, immutable.
 */
public final class AttentionSpan {
    /** Every layer reads the whole context. */
    public static final AttentionSpan WHOLE = new AttentionSpan(List.of());

    /** [kinds] the different windows of layers; {@link Integer#MAX_VALUE} for layers without one. */
    private final int[] windows;
    /** [kinds] how many layers have it. */
    private final int[] layers;

    private final int layerCount;

    /**
     * The span of a model.
     *
     * @param ofLayers the window of each layer, 0 for none; empty when no layer has one
     */
    public AttentionSpan(List<Integer> ofLayers) {
        this.windows = ofLayers.stream()
                .mapToInt(window -> window == 0 ? Integer.MAX_VALUE : window)
                .distinct()
                .toArray();
        this.layers = IntStream.of(windows)
                .map(window -> Collections.frequency(ofLayers, window == Integer.MAX_VALUE ? 0 : window))
                .toArray();
        this.layerCount = ofLayers.size();
    }

    /** Whether every layer reads the whole context. */
    public boolean isWhole() {
        return IntStream.of(windows).allMatch(window -> window == Integer.MAX_VALUE);
    }

    /** Max of {@link #tokens}; {@link Integer#MAX_VALUE} where a layer reads the whole context. */
    public int maxTokens() {
        boolean bounded = windows.length > 0 && IntStream.of(windows).allMatch(window -> window < Integer.MAX_VALUE);
        return bounded ? tokens(Integer.MAX_VALUE) : Integer.MAX_VALUE;
    }

    /** Tokens that the last of {@code length} tokens attends to, itself included. */
    public int tokens(int length) {
        if (windows.length == 0) {
            return length;
        }
        long sum = 0;
        for (int i = 0; i < windows.length; i++) {
            sum += (long) layers[i] * Math.min(windows[i], length);
        }
        return (int) (sum / layerCount);
    }

    /**
     * The mean of {@link #tokens} over all lengths between two, which may be equal; not rounded. A sequence holds the
     * KV of as many tokens, as a mean over the layers, where KV behind a window is freed.
     */
    public double meanTokens(double from, double to) {
        if (windows.length == 0) {
            return meanUpTo(from, to, Integer.MAX_VALUE);
        }
        double sum = 0;
        for (int i = 0; i < windows.length; i++) {
            sum += layers[i] * meanUpTo(from, to, windows[i]);
        }
        return sum / layerCount;
    }

    /** The mean of the lengths from {@code from} to {@code to}, each limited to {@code max}. */
    private static double meanUpTo(double from, double to, double max) {
        if (to <= max) {
            return from + (to - from) / 2;
        }
        if (from >= max) {
            return max;
        }
        double inside = max - from;
        return (inside * (from + inside / 2) + (to - max) * max) / (to - from);
    }

    /** Pairs of one of {@code rows} tokens from position {@code start} on and a token that it attends to. */
    public long pairs(int start, int rows) {
        if (windows.length == 0) {
            return triangle(start, rows);
        }
        long sum = 0;
        for (int i = 0; i < windows.length; i++) {
            // tokens whose context is shorter than the window
            int inside = Math.clamp(windows[i] - (long) start, 0, rows);
            sum += layers[i] * (triangle(start, inside) + (long) (rows - inside) * windows[i]);
        }
        return sum / layerCount;
    }

    private static long triangle(int start, int rows) {
        return rows * (long) start + (long) rows * (rows + 1) / 2;
    }
}
