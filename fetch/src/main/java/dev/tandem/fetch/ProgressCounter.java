package dev.tandem.fetch;

/**
 * Reports the progress of work whose number of items is known before. Without items it reports nothing.
 *
 * <p>Any thread; the reports follow one another, each with one item more.
 */
public final class ProgressCounter {
    private final Progress progress;
    private final String what;
    private final int items;
    private int done;

    /** Begins the work: reports that no item is finished. */
    public ProgressCounter(Progress progress, String what, int items) {
        this.progress = progress;
        this.what = what;
        this.items = items;
        if (items > 0) {
            progress.at(what, 0, items);
        }
    }

    /** Reports one more finished item. */
    public synchronized void finished() {
        progress.at(what, ++done, items);
    }
}
