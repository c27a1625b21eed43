package dev.tandem.fetch.hub;

import dev.tandem.fetch.CacheFile;
import dev.tandem.fetch.FetchException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The folders of the hub's cache. {@code models--ORGANISATION--NAME} has {@code blobs} by ETag, {@code snapshots} by
 * commit with links to the blobs, and {@code refs} with the commit of each branch. A blob may itself be a link into a
 * store that the hub's Python client shares among repositories; such links are followed and the store is not written.
 */
final class HubCache {
    private static final Pattern ETAG = Pattern.compile("[0-9a-f]{40}|[0-9a-f]{64}");
    private static final Pattern COMMIT = Pattern.compile("[0-9a-f]{40}");
    private static final String PREFIX = "models--";

    private final Path root;

    HubCache(Path root) {
        this.root = root;
    }

    Path root() {
        return root;
    }

    private static String folderName(String repository) {
        return PREFIX + repository.replace("/", "--");
    }

    private Path folder(String repository) {
        return root.resolve(folderName(repository));
    }

    Path blob(String repository, String etag) {
        return folder(repository).resolve("blobs").resolve(etag);
    }

    Path lock(String repository, String etag) {
        return root.resolve(".locks").resolve(folderName(repository)).resolve(etag + ".lock");
    }

    Path snapshot(String repository, String commit) {
        return folder(repository).resolve("snapshots").resolve(commit);
    }

    static boolean isCommit(String text) {
        return COMMIT.matcher(text).matches();
    }

    /**
     * Refuses names that would lead outside the cache.
     *
     * @throws FetchException when the hub names such a file
     */
    static void requireSafe(HubModel model, HubFile file) {
        boolean safePath = Stream.of(file.path().split("/", -1))
                .noneMatch(part -> part.isEmpty() || part.equals(".") || part.equals("..") || part.contains("\\"));
        if (!safePath
                || file.path().indexOf('\0') >= 0
                || !ETAG.matcher(file.etag()).matches()
                || file.size() < 0) {
            throw new FetchException("the hub's file list of " + model + " has the entry '" + file.path()
                    + "' with ETag '" + file.etag() + "', which no cache can hold; check HF_ENDPOINT");
        }
    }

    /** Links the snapshot's file to its blob. */
    void link(HubListing listing, HubFile file) throws IOException {
        String repository = listing.model().repository();
        Path snapshot = snapshot(repository, listing.commit());
        Path link = snapshot.resolve(file.path());
        Path folder = Objects.requireNonNullElse(link.getParent(), snapshot);
        Path target = folder.relativize(blob(repository, file.etag()));
        if (Files.isSymbolicLink(link) && Files.readSymbolicLink(link).equals(target)) {
            return;
        }
        Files.createDirectories(folder);
        Path part = link.resolveSibling(link.getFileName() + "."
                + ProcessHandle.current().pid() + "." + Thread.currentThread().threadId() + ".part");
        Files.deleteIfExists(part);
        Files.createSymbolicLink(part, target);
        Files.move(part, link, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Records the commit of a branch. */
    void writeRef(HubListing listing) throws IOException {
        HubModel model = listing.model();
        if (!model.isCommit()) {
            Path ref = folder(model.repository()).resolve("refs").resolve(model.revision());
            CacheFile.write(ref, listing.commit().getBytes(StandardCharsets.UTF_8));
        }
    }

    /** The commit that the cache has for the model's revision. */
    private Optional<String> commit(HubModel model) throws IOException {
        if (model.isCommit()) {
            return Optional.of(model.revision());
        }
        Path ref = folder(model.repository()).resolve("refs").resolve(model.revision());
        return Files.isRegularFile(ref)
                ? Optional.of(Files.readString(ref).strip()).filter(HubCache::isCommit)
                : Optional.empty();
    }

    /** The files of the model's revision that are in the cache; empty when there are none. */
    Optional<HubListing> listing(HubModel model) throws IOException {
        Optional<String> commit = commit(model);
        if (commit.isEmpty() || !Files.isDirectory(snapshot(model.repository(), commit.get()))) {
            return Optional.empty();
        }
        return Optional.of(new HubListing(model, commit.get(), files(snapshot(model.repository(), commit.get()))));
    }

    private static List<HubFile> files(Path snapshot) throws IOException {
        List<HubFile> files = new ArrayList<>();
        try (Stream<Path> paths = Files.walk(snapshot)) {
            for (Path path : (Iterable<Path>) paths.sorted()::iterator) {
                if (Files.isRegularFile(path)) { // a link to a blob that is there
                    String etag = Files.isSymbolicLink(path)
                            ? Files.readSymbolicLink(path).getFileName().toString()
                            : "";
                    files.add(new HubFile(
                            snapshot.relativize(path).toString().replace('\\', '/'),
                            Files.size(path),
                            etag,
                            etag.length() == 64));
                }
            }
        }
        return files;
    }

    /** The models in the cache, one per revision with a name, or per snapshot without one. */
    List<HubListing> listings() throws IOException {
        List<HubListing> all = new ArrayList<>();
        if (!Files.isDirectory(root)) {
            return all;
        }
        for (Path folder : children(root)) {
            String name = folder.getFileName().toString();
            Optional<HubModel> model = name.startsWith(PREFIX)
                    ? HubModel.parse(name.substring(PREFIX.length()).replaceFirst("--", "/"))
                    : Optional.empty();
            if (model.isEmpty()) {
                continue;
            }
            Set<String> named = new HashSet<>();
            for (String revision : revisions(folder.resolve("refs"))) {
                HubModel branch = new HubModel(model.get().repository(), revision, Optional.empty());
                listing(branch).ifPresent(listing -> {
                    all.add(listing);
                    named.add(listing.commit());
                });
            }
            for (Path snapshot : children(folder.resolve("snapshots"))) {
                String commit = snapshot.getFileName().toString();
                if (!named.contains(commit)) {
                    listing(new HubModel(model.get().repository(), commit, Optional.empty()))
                            .ifPresent(all::add);
                }
            }
        }
        return all;
    }

    private static List<String> revisions(Path refs) throws IOException {
        if (!Files.isDirectory(refs)) {
            return List.of();
        }
        try (Stream<Path> paths = Files.walk(refs)) {
            return paths.filter(Files::isRegularFile)
                    .map(path -> refs.relativize(path).toString().replace('\\', '/'))
                    .filter(revision -> !revision.contains(".."))
                    .sorted()
                    .toList();
        }
    }

    private static List<Path> children(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> paths = Files.list(folder)) {
            return paths.filter(Files::isDirectory).sorted().toList();
        }
    }

    /**
     * Deletes files of a model: their links, and the blobs to which no other snapshot links.
     *
     * @param waiting runs if another process downloads one of the files, for which the deletion waits
     * @return bytes that became free
     */
    long delete(HubListing listing, List<HubFile> files, Runnable waiting) throws IOException, InterruptedException {
        String repository = listing.model().repository();
        Path folder = folder(repository);
        long freed = 0;
        for (HubFile file : files) {
            Path link = snapshot(repository, listing.commit()).resolve(file.path());
            Files.deleteIfExists(link);
            if (file.etag().isEmpty() || linked(folder, file.etag())) {
                continue;
            }
            Path blob = blob(repository, file.etag());
            try (BlobLock _ = BlobLock.take(lock(repository, file.etag()), waiting)) {
                freed += Files.isSymbolicLink(blob) ? 0 : file.size();
                Files.deleteIfExists(blob);
            }
        }
        if (files(snapshot(repository, listing.commit())).isEmpty()) {
            deleteTree(snapshot(repository, listing.commit()));
            for (String revision : revisions(folder.resolve("refs"))) {
                Path ref = folder.resolve("refs").resolve(revision);
                if (Files.readString(ref).strip().equals(listing.commit())) {
                    Files.delete(ref);
                }
            }
        }
        if (children(folder.resolve("snapshots")).isEmpty()) {
            deleteTree(folder);
        }
        return freed;
    }

    private static boolean linked(Path folder, String etag) throws IOException {
        for (Path snapshot : children(folder.resolve("snapshots"))) {
            if (files(snapshot).stream().anyMatch(file -> file.etag().equals(etag))) {
                return true;
            }
        }
        return false;
    }

    /** Deletes a folder with its content; links are deleted, and what they lead to stays. */
    private static void deleteTree(Path folder) throws IOException {
        if (!Files.exists(folder, LinkOption.NOFOLLOW_LINKS)) {
            return;
        }
        try (Stream<Path> paths = Files.walk(folder)) {
            for (Path path : (Iterable<Path>) paths.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(path);
            }
        }
    }
}
