package dev.tandem.engine.kv;

import java.util.List;

/**
 * How many tokens attention reads, as a mean over the layers: layers with a sliding window read no more than that.
 *
 * <p>Owned by: any thread, immutable.
 */
public final class AttentionSpan {
    /** Every layer reads the whole context. */
    public static final AttentionSpan WHOLE = new AttentionSpan(List.of());

    /** Windows of the layers that have one, and how many other layers there are. */
    private final int[] windows;

    private final int whole;

    /** @param windows of each layer, 0 for none; empty when no layer has one */
    public AttentionSpan(List<Integer> windows) {
        this.windows =
                windows.stream().mapToInt(Integer::intValue).filter(w -> w > 0).toArray();
        this.whole = windows.size() - this.windows.length;
    }

    /** Whether every layer reads the whole context. */
    public boolean isWhole() {
        return windows.length == 0;
    }

    /** Max of {@link #tokens}; {@link Integer#MAX_VALUE} where a layer reads the whole context. */
    public int maxTokens() {
        return whole > 0 ? Integer.MAX_VALUE : tokens(Integer.MAX_VALUE);
    }

    /** Tokens that the last of {@code length} tokens attends to, itself included. */
    public int tokens(int length) {
        if (windows.length == 0) {
            return length;
        }
        long sum = (long) whole * length;
        for (int window : windows) {
            sum += Math.min(window, length);
        }
        return (int) (sum / (whole + windows.length));
    }

    /** Pairs of one of {@code rows} tokens from position {@code start} on and a token that it attends to. */
    public long pairs(int start, int rows) {
        long all = rows * (long) start + (long) rows * (rows + 1) / 2;
        if (windows.length == 0) {
            return all;
        }
        long sum = whole * all;
        for (int window : windows) {
            // tokens whose context is shorter than the window
            int inside = Math.clamp(window - (long) start, 0, rows);
            sum += inside * (long) start + (long) inside * (inside + 1) / 2 + (long) (rows - inside) * window;
        }
        return sum / (whole + windows.length);
    }
}
