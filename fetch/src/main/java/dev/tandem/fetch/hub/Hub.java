package dev.tandem.fetch.hub;

import dev.tandem.fetch.CacheFile;
import dev.tandem.fetch.FetchException;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.StallWatch;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * A model hub and its cache on this machine. Files are downloaded in parallel, resumed where an earlier download ended,
 * checked against the hub's digests, and appear in the cache only when they are complete. Processes that want the same
 * file wait for the one that downloads it, the hub's Python client included.
 *
 * <p>Owned by: one thread; see {@link HubHttp} and {@link BlobDownload} for the threads that it starts.
 */
public final class Hub {
    private static final int MAX_PAGES = 100;
    /** The hub refuses to send larger files by plain HTTP. */
    private static final long MAX_FILE = 50_000_000_000L;

    /**
     * How to download.
     *
     * @param files files at a time
     * @param ranges ranges at a time, over all files
     * @param rangeBytes bytes of a range: an interrupted process loses {@code ranges} of them
     * @param maxWait max time for an answer to begin, and for each further {@link StallWatch#MIN_BYTES}
     * @param pause before a failed request is sent again; each further one waits twice as long
     */
    record Settings(int files, int ranges, long rangeBytes, Duration maxWait, Duration pause) {
        /** The hub's Python client uses 8 connections, too. */
        static final Settings DEFAULT = new Settings(4, 8, 64 << 20, Duration.ofSeconds(60), Duration.ofSeconds(1));
    }

    private final HubLocation location;
    private final HubCache cache;
    private final HubHttp http;
    private final Progress progress;
    private final Settings settings;

    /** @param progress called by several threads, one at a time */
    public Hub(HubLocation location, Progress progress) {
        this(location, progress, Settings.DEFAULT);
    }

    Hub(HubLocation location, Progress progress, Settings settings) {
        this.location = location;
        this.cache = new HubCache(location.cache());
        this.http = new HubHttp(location, settings.maxWait(), settings.pause());
        this.progress = progress;
        this.settings = settings;
    }

    /** The files of the model's revision that are in the cache; empty when there are none. */
    public Optional<HubListing> cached(HubModel model) {
        try {
            return cache.listing(model);
        } catch (IOException e) {
            throw unreadable(e);
        }
    }

    /** All models in the cache, by revision. */
    public List<HubListing> cached() {
        try {
            return cache.listings();
        } catch (IOException e) {
            throw unreadable(e);
        }
    }

    private FetchException unreadable(IOException e) {
        return new FetchException(
                "the cache " + cache.root() + " cannot be read: " + e.getMessage()
                        + "; change its rights, or set HF_HUB_CACHE to another folder",
                e);
    }

    static FetchException cannotWrite(Path file, IOException e) {
        return CacheFile.cannotWrite(file, "HF_HUB_CACHE", e);
    }

    /** The folder that holds, or will hold, the files of a commit. */
    public Path snapshot(HubListing listing) {
        return cache.snapshot(listing.model().repository(), listing.commit());
    }

    /**
     * Asks the hub for the files of a model.
     *
     * @throws FetchException when the hub refuses or cannot be reached, or {@code HF_HUB_OFFLINE} is set
     */
    public HubListing list(HubModel model) {
        if (location.offline()) {
            throw new FetchException("HF_HUB_OFFLINE is set, and the cache " + cache.root() + " does not have all of "
                    + model + "; unset it, or run tandem pull " + model + " where there is a network");
        }
        String api = location.endpoint() + "/api/models/" + model.repository();
        try {
            String revision = URLEncoder.encode(model.revision(), StandardCharsets.UTF_8);
            String commit = json(http.page(URI.create(api + "/revision/" + revision), model), model)
                    .path("sha")
                    .asString("");
            if (!HubCache.isCommit(commit)) {
                throw new FetchException(location.endpoint() + " names the commit '" + commit + "' for " + model
                        + "; a commit has 40 hexadecimal digits. Check HF_ENDPOINT");
            }
            List<HubFile> files = new ArrayList<>();
            URI page = URI.create(api + "/tree/" + commit + "?recursive=true");
            for (int pages = 0; ; pages++) {
                HubHttp.Page answer = http.page(page, model);
                json(answer, model).forEach(entry -> {
                    if (entry.path("type").asString("").equals("file")) {
                        HubFile file = file(entry);
                        HubCache.requireSafe(model, file);
                        files.add(file);
                    }
                });
                if (answer.next().isEmpty()) {
                    return new HubListing(model, commit, files);
                }
                page = page.resolve(answer.next());
                if (pages == MAX_PAGES || !page.toString().startsWith(api)) {
                    throw new FetchException("the hub's file list of " + model + " goes on at " + page
                            + ", which is not expected; check HF_ENDPOINT, " + location.endpoint());
                }
            }
        } catch (InterruptedException e) {
            throw interrupted(model, e);
        }
    }

    private static HubFile file(JsonNode entry) {
        JsonNode large = entry.path("lfs");
        boolean isLarge = large.isObject();
        return new HubFile(
                entry.path("path").asString(""),
                (isLarge ? large : entry).path("size").asLong(-1),
                (isLarge ? large : entry).path("oid").asString(""),
                isLarge);
    }

    private JsonNode json(HubHttp.Page page, HubModel model) {
        try {
            return new ObjectMapper().readTree(page.text());
        } catch (JacksonException e) {
            throw new FetchException(
                    location.endpoint() + " answered for " + model + " with something that is not JSON: "
                            + e.getOriginalMessage() + "; check HF_ENDPOINT",
                    e);
        }
    }

    /** Reads bytes of a file without the cache, to look at its header. */
    public byte[] read(HubListing listing, HubFile file, long from, int length) {
        try {
            return http.repeated(() -> {
                HubHttp.Bytes answer = http.open(listing, file, from, from + length);
                try (InputStream in = answer.in();
                        StallWatch watch = http.watch(in)) {
                    if (answer.whole()) {
                        in.skipNBytes(from);
                        watch.read((int) Math.min(from, Integer.MAX_VALUE));
                    }
                    byte[] bytes = in.readNBytes(length);
                    if (bytes.length < length) {
                        throw new IOException("the connection broke after " + bytes.length + " of " + length
                                + " bytes of " + file.path());
                    }
                    return bytes;
                }
            });
        } catch (InterruptedException e) {
            throw interrupted(listing.model(), e);
        }
    }

    private static FetchException interrupted(HubModel model, InterruptedException e) {
        Thread.currentThread().interrupt();
        return new FetchException(
                "the download of " + model + " was interrupted; the same command goes on from there", e);
    }

    /**
     * Downloads the files that are missing, makes the commit the one of its branch in the cache, and returns the
     * snapshot's folder.
     *
     * @throws FetchException when that fails; what has arrived is kept for the next time
     */
    public Path fetch(HubListing listing, List<HubFile> files) {
        Path snapshot = fetchFirst(listing, files);
        try {
            cache.writeRef(listing);
        } catch (IOException e) {
            throw cannotWrite(cache.root(), e);
        }
        return snapshot;
    }

    /** As {@link #fetch}, for files that others follow: the branch in the cache stays where it is. */
    public Path fetchFirst(HubListing listing, List<HubFile> files) {
        String repository = listing.model().repository();
        for (HubFile file : files) {
            if (file.size() > MAX_FILE) {
                throw new FetchException(file.path() + " of " + listing.model() + " has " + file.size()
                        + " bytes, and the hub sends files of up to " + MAX_FILE
                        + " bytes this way; download it with the"
                        + " hub's own client, hf download " + repository + ", whose cache Tandem uses");
            }
        }
        long missing = files.stream()
                .filter(file -> !Files.exists(cache.blob(repository, file.etag())))
                .mapToLong(HubFile::size)
                .sum();
        Received received = new Received(listing.model().toString(), missing);
        try (ExecutorService fileThreads = threads(settings.files(), "hub-file-");
                ExecutorService rangeThreads = threads(settings.ranges(), "hub-range-")) {
            try {
                Files.createDirectories(cache.root());
                requireSpace(missing);
                ExecutorCompletionService<HubFile> running = new ExecutorCompletionService<>(fileThreads);
                for (HubFile file : files) {
                    running.submit(() -> fetch(listing, file, received, rangeThreads));
                }
                for (int i = 0; i < files.size(); i++) {
                    await(running.take());
                }
                return cache.snapshot(repository, listing.commit());
            } finally {
                fileThreads.shutdownNow();
                rangeThreads.shutdownNow();
            }
        } catch (IOException e) {
            throw cannotWrite(cache.root(), e);
        } catch (InterruptedException e) {
            throw interrupted(listing.model(), e);
        }
    }

    private static ExecutorService threads(int count, String name) {
        return Executors.newFixedThreadPool(
                count, Thread.ofPlatform().daemon().name(name, 0).factory());
    }

    /** Waits for a task and rethrows what it threw. */
    static void await(Future<?> task) throws IOException, InterruptedException {
        try {
            task.get();
        } catch (ExecutionException e) {
            switch (e.getCause()) {
                case IOException cause -> throw cause;
                case RuntimeException cause -> throw cause;
                case Error cause -> throw cause;
                case InterruptedException cause -> throw cause;
                case null, default -> throw new IllegalStateException(e.getCause());
            }
        }
    }

    private void requireSpace(long bytes) throws IOException {
        long free = Files.getFileStore(cache.root()).getUsableSpace();
        if (free < bytes) {
            throw new FetchException(
                    "the disk of " + cache.root() + " has " + free + " bytes free and the download needs " + bytes
                            + "; free some, or set HF_HUB_CACHE to a folder elsewhere");
        }
    }

    /** Adds up what the threads receive. */
    private final class Received {
        private final String what;
        private final long total;
        private long done;

        Received(String what, long total) {
            this.what = what;
            this.total = total;
        }

        synchronized void add(long bytes) {
            done += bytes;
            progress.at(what, done, total);
        }

        synchronized void waitFor(String file) {
            progress.at(what + ": another process downloads " + file, done, 0);
        }
    }

    private HubFile fetch(HubListing listing, HubFile file, Received received, ExecutorService ranges)
            throws IOException, InterruptedException {
        String repository = listing.model().repository();
        Path blob = cache.blob(repository, file.etag());
        if (!Files.exists(blob)) {
            try (BlobLock _ = BlobLock.take(cache.lock(repository, file.etag()), () -> received.waitFor(file.name()))) {
                if (!Files.exists(blob)) {
                    new BlobDownload(http, listing, file, blob, settings.rangeBytes(), received::add).run(ranges);
                } else {
                    received.add(file.size()); // by the process that had the lock
                }
            }
        }
        cache.link(listing, file);
        return file;
    }

    /**
     * Deletes files of a model from the cache, and returns the bytes that became free. Blobs of other revisions stay.
     *
     * @throws FetchException when the cache cannot be written
     */
    public long remove(HubListing listing, List<HubFile> files) {
        try {
            return cache.delete(
                    listing, files, () -> progress.at("another process downloads " + listing.model(), 0, 0));
        } catch (IOException e) {
            throw cannotWrite(cache.root(), e);
        } catch (InterruptedException e) {
            throw interrupted(listing.model(), e);
        }
    }
}
