package dev.tandem.fetch.hub;

/**
 * A file of a repository.
 *
 * @param path within the repository, with slashes
 * @param size in bytes
 * @param etag the SHA-256 of a file in large file storage; the SHA-1 of git of any other file. It names the blob.
 * @param large whether the file lies in large file storage
 */
public record HubFile(String path, long size, String etag, boolean large) {
    /** The last element of the path. */
    public String name() {
        return path.substring(path.lastIndexOf('/') + 1);
    }
}
