package dev.tandem.fetch;

/** Receives the progress of work that takes long: a download, or items one after the other. */
@FunctionalInterface
public interface Progress {
    /**
     * Called after each part of the work.
     *
     * @param what names the work
     * @param done bytes received or items finished so far
     * @param total bytes or items of all the work; 0 when unknown
     */
    void at(String what, long done, long total);

    Progress SILENT = (what, done, total) -> {};
}
