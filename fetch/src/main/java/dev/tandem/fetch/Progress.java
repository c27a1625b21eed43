package dev.tandem.fetch;

/** Told how far a download is. */
@FunctionalInterface
public interface Progress {
    /**
     * Reports how many bytes have arrived.
     *
     * @param total bytes in all, 0 when the server does not say
     */
    void at(String what, long done, long total);

    Progress SILENT = (what, done, total) -> {};
}
