package dev.tandem.fetch.hub;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.List;

/**
 * The files of one commit of a repository.
 *
 * @param model the model that was asked for
 * @param commit 40 hexadecimal digits
 */
public record HubListing(HubModel model, String commit, List<HubFile> files) {
    /** The path as part of an address; slashes stay. */
    static String escaped(String path) {
        try {
            return new URI(null, null, "/" + path, null).getRawPath().substring(1);
        } catch (URISyntaxException e) {
            throw new IllegalArgumentException(path, e);
        }
    }

    /** Bytes of the files. */
    public static long bytes(List<HubFile> files) {
        return files.stream().mapToLong(HubFile::size).sum();
    }
}
