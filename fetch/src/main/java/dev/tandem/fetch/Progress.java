package dev.tandem.fetch;

/** Receives the progress of a download. */
@FunctionalInterface
public interface Progress {
    /**
     * Called after each part of a download.
     *
     * @param done bytes received so far
     * @param total bytes of the whole download; 0 when unknown
     */
    void at(String what, long done, long total);

    Progress SILENT = (what, done, total) -> {};
}
