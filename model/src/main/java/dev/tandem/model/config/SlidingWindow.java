package dev.tandem.model.config;

/** Sliding windows: a token attends to itself and to the tokens just before it. */
public final class SlidingWindow {
    private SlidingWindow() {}

    /**
     * The window that a layer needs; 0 for none.
     *
     * @param window as the file gives it; below 1 for none
     * @param context max tokens of a sequence: a window as long hides nothing
     */
    public static int within(int window, int context) {
        return window < 1 || window >= context ? 0 : window;
    }

    /** The position of the first token that a token attends to. */
    public static int first(int position, int window) {
        return window == 0 ? 0 : Math.max(0, position - window + 1);
    }
}
