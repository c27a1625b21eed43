package dev.tandem.testkit;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

/**
 * A model hub on the loopback address for tests, with faults. Its large files lie on a second server, as on a content
 * delivery network. The paths, headers and answers are those that the hub's Python client uses.
 */
public final class FakeHub implements AutoCloseable {
    private static final int BLOCK = 1 << 20;
    private static final HexFormat HEX = HexFormat.of();

    /** Content of a file. */
    private interface Content {
        long size();

        /** Bytes {@code index * BLOCK} and following, up to a block. */
        byte[] block(long index);
    }

    private record Literal(byte[] bytes) implements Content {
        @Override
        public long size() {
            return bytes.length;
        }

        @Override
        public byte[] block(long index) {
            int from = (int) (index * BLOCK);
            return Arrays.copyOfRange(bytes, from, Math.min(bytes.length, from + BLOCK));
        }
    }

    private record Noise(long size, long seed) implements Content {
        @Override
        public byte[] block(long index) {
            byte[] bytes = new byte[(int) Math.min(BLOCK, size - index * BLOCK)];
            new SplittableRandom(seed + index).nextBytes(bytes);
            return bytes;
        }
    }

    private record OfFile(Path path, long size) implements Content {
        @Override
        public byte[] block(long index) {
            try (FileChannel in = FileChannel.open(path)) {
                ByteBuffer bytes = ByteBuffer.allocate((int) Math.min(BLOCK, size - index * BLOCK));
                while (bytes.hasRemaining() && in.read(bytes, index * BLOCK + bytes.position()) >= 0) {}
                return bytes.array();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private record StoredFile(Content content, boolean large, String etag) {}

    private static final class Repository {
        final Map<String, StoredFile> files = new TreeMap<>();
        String commit = "";
    }

    private final HttpServer hub;
    private final HttpServer storage;
    private final Map<String, Repository> repositories = new ConcurrentHashMap<>();
    private final AtomicLong servedBytes = new AtomicLong();
    private final AtomicInteger storageRequests = new AtomicInteger();
    private final List<String> tokensAtStorage = new CopyOnWriteArrayList<>();
    private final List<String> requests = new CopyOnWriteArrayList<>();
    private final SplittableRandom chance;

    private volatile double brokenFraction;
    private volatile boolean ranges = true;
    private volatile boolean corrupt;
    private volatile String token = "";
    private volatile int pageSize = 1000;
    private volatile int failures;
    private volatile int holdFrom = Integer.MAX_VALUE;
    private volatile CountDownLatch held = new CountDownLatch(1);
    private volatile CountDownLatch released = new CountDownLatch(1);
    private final Set<String> gated = ConcurrentHashMap.newKeySet();

    /** @param seed of the connections that break */
    public FakeHub(long seed) throws IOException {
        chance = new SplittableRandom(seed);
        hub = server();
        storage = server();
        hub.createContext("/", guarded(this::answer));
        storage.createContext("/", guarded(this::answerStorage));
        hub.start();
        storage.start();
    }

    private static HttpServer server() throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newCachedThreadPool(
                Thread.ofPlatform().daemon().name("fake-hub-", 0).factory()));
        return server;
    }

    private interface Handler {
        void handle(HttpExchange exchange) throws IOException;
    }

    /** Closes the connection when the client has gone, or a fault has broken it. */
    private static HttpHandler guarded(Handler handler) {
        return exchange -> {
            try (exchange) {
                handler.handle(exchange);
            }
        };
    }

    /** The address for {@code HF_ENDPOINT}. */
    public String endpoint() {
        return "http://127.0.0.1:" + hub.getAddress().getPort();
    }

    /** Adds a small file, which the hub itself serves. */
    public FakeHub add(String repository, String path, byte[] content) {
        return add(repository, path, new Literal(content), false);
    }

    /** Adds a file to large file storage. */
    public FakeHub addLarge(String repository, String path, byte[] content) {
        return add(repository, path, new Literal(content), true);
    }

    /** Adds a file of this machine to large file storage. */
    public FakeHub addFile(String repository, String path, Path file) throws IOException {
        return add(repository, path, new OfFile(file, Files.size(file)), true);
    }

    /** Adds a large file of random bytes. */
    public FakeHub addNoise(String repository, String path, long size, long seed) {
        return add(repository, path, new Noise(size, seed), true);
    }

    private synchronized FakeHub add(String name, String path, Content content, boolean large) {
        Repository repository = repositories.computeIfAbsent(name, _ -> new Repository());
        MessageDigest digest = digest(large ? "SHA-256" : "SHA-1");
        if (!large) {
            digest.update(("blob " + content.size() + "\0").getBytes(StandardCharsets.US_ASCII));
        }
        for (long at = 0; at < content.size(); at += BLOCK) {
            digest.update(content.block(at / BLOCK));
        }
        repository.files.put(path, new StoredFile(content, large, HEX.formatHex(digest.digest())));
        MessageDigest commit = digest("SHA-1");
        repository.files.forEach(
                (file, stored) -> commit.update((file + stored.etag()).getBytes(StandardCharsets.UTF_8)));
        repository.commit = HEX.formatHex(commit.digest());
        return this;
    }

    private static MessageDigest digest(String algorithm) {
        try {
            return MessageDigest.getInstance(algorithm);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Breaks this fraction of the connections to the storage, each after a random part of the answer. */
    public void breakConnections(double fraction) {
        brokenFraction = fraction;
    }

    /** Whether the storage answers to requests for ranges, or with the whole file. */
    public void supportRanges(boolean supported) {
        ranges = supported;
    }

    /** Whether the storage changes a byte of each answer. */
    public void corrupt(boolean wrong) {
        corrupt = wrong;
    }

    /** Requires this token for files; the storage never wants it. */
    public void requireToken(String required) {
        token = required;
    }

    public void gate(String repository) {
        gated.add(repository);
    }

    /** Entries of a page of the file list. */
    public void pageSize(int entries) {
        pageSize = entries;
    }

    /** Answers the next requests to the storage with 429 and {@code Retry-After: 0}. */
    public void failNext(int count) {
        failures = count;
    }

    /** Holds requests to the storage from the {@code count}-th on (counted from 1), until {@link #release}. */
    public void holdFrom(int count) {
        held = new CountDownLatch(1);
        released = new CountDownLatch(1);
        storageRequests.set(0);
        holdFrom = count;
    }

    /** Waits until a request is held. */
    public void awaitHeld() throws InterruptedException {
        held.await();
    }

    public void release() {
        holdFrom = Integer.MAX_VALUE;
        released.countDown();
    }

    /** Bytes of file contents that were sent. */
    public long servedBytes() {
        return servedBytes.get();
    }

    /** Credentials that a client sent to the storage; there should be none. */
    public List<String> tokensAtStorage() {
        return tokensAtStorage;
    }

    /** Methods and paths of the requests to the hub. */
    public List<String> requests() {
        return requests;
    }

    public String commit(String repository) {
        return repositories.get(repository).commit;
    }

    private void answer(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath();
        requests.add(exchange.getRequestMethod() + " " + path);
        String[] parts = path.split("/", 7);
        if (path.startsWith("/api/models/") && parts.length >= 6) {
            api(exchange, parts[3] + "/" + parts[4], parts[5], parts.length > 6 ? parts[6] : "");
        } else if (parts.length >= 6 && parts[3].equals("resolve")) {
            String[] within = path.split("/", 6);
            resolve(exchange, parts[1] + "/" + parts[2], within[4], within[5]);
        } else {
            refuse(exchange, 404, "RepoNotFound");
        }
    }

    private boolean authorized(HttpExchange exchange) {
        return token.isEmpty()
                || ("Bearer " + token).equals(exchange.getRequestHeaders().getFirst("Authorization"));
    }

    private void api(HttpExchange exchange, String name, String what, String revision) throws IOException {
        Repository repository = repositories.get(name);
        if (repository == null) {
            refuse(exchange, 401, "RepoNotFound");
        } else if (!authorized(exchange) && exchange.getRequestHeaders().containsKey("Authorization")) {
            exchange.getResponseHeaders().set("X-Error-Message", "Invalid credentials in Authorization header");
            refuse(exchange, 401, "");
        } else if (!revision.equals("main") && !revision.equals(repository.commit)) {
            refuse(exchange, 404, "RevisionNotFound");
        } else if (what.equals("revision")) {
            String files = repository.files.keySet().stream()
                    .map(file -> "{\"rfilename\": \"" + file + "\"}")
                    .collect(Collectors.joining(", "));
            json(
                    exchange,
                    "{\"id\": \"" + name + "\", \"sha\": \"" + repository.commit + "\", \"siblings\": [" + files
                            + "]}");
        } else {
            tree(exchange, name, repository);
        }
    }

    private void tree(HttpExchange exchange, String name, Repository repository) throws IOException {
        String query = String.valueOf(exchange.getRequestURI().getQuery());
        int from = query.contains("cursor=") ? Integer.parseInt(query.replaceAll(".*cursor=([0-9]+).*", "$1")) : 0;
        List<String> entries = repository.files.entrySet().stream()
                .map(entry -> {
                    StoredFile file = entry.getValue();
                    String size = "\"size\": " + file.content().size();
                    return "{\"type\": \"file\", \"path\": \"" + entry.getKey() + "\", \"oid\": \""
                            + (file.large() ? "0".repeat(40) : file.etag()) + "\", " + size
                            + (file.large()
                                    ? ", \"lfs\": {\"oid\": \"" + file.etag() + "\", \"pointerSize\": 134, " + size
                                            + "}"
                                    : "")
                            + "}";
                })
                .toList();
        int to = Math.min(entries.size(), from + pageSize);
        if (to < entries.size()) {
            exchange.getResponseHeaders()
                    .add(
                            "Link",
                            "<" + endpoint() + "/api/models/" + name + "/tree/" + repository.commit
                                    + "?recursive=true&cursor=" + to + ">; rel=\"next\"");
        }
        json(
                exchange,
                "[{\"type\": \"directory\", \"path\": \"folder\", \"oid\": \"0\", \"size\": 0}"
                        + entries.subList(from, to).stream()
                                .map(entry -> ", " + entry)
                                .collect(Collectors.joining()) + "]");
    }

    private void resolve(HttpExchange exchange, String name, String revision, String path) throws IOException {
        Repository repository = repositories.get(name);
        if (repository == null) {
            refuse(exchange, 401, "RepoNotFound");
            return;
        }
        StoredFile file = repository.files.get(path);
        exchange.getResponseHeaders().set("X-Repo-Commit", repository.commit);
        if (gated.contains(name) || !authorized(exchange)) {
            refuse(exchange, 403, "GatedRepo");
        } else if (!revision.equals("main") && !revision.equals(repository.commit)) {
            refuse(exchange, 404, "RevisionNotFound");
        } else if (file == null) {
            refuse(exchange, 404, "EntryNotFound");
        } else if (file.large()) {
            exchange.getResponseHeaders().set("X-Linked-Etag", "\"" + file.etag() + "\"");
            exchange.getResponseHeaders()
                    .set("X-Linked-Size", "" + file.content().size());
            exchange.getResponseHeaders().set("ETag", "\"" + "f".repeat(32) + "\"");
            exchange.getResponseHeaders()
                    .set(
                            "Location",
                            "http://127.0.0.1:" + storage.getAddress().getPort() + "/" + name + "/" + file.etag());
            exchange.sendResponseHeaders(302, -1);
        } else {
            exchange.getResponseHeaders().set("ETag", "W/\"" + file.etag() + "\"");
            send(exchange, file.content(), true, false);
        }
    }

    private void answerStorage(HttpExchange exchange) throws IOException {
        int number = storageRequests.incrementAndGet();
        List<String> credentials = exchange.getRequestHeaders().get("Authorization");
        if (credentials != null) {
            tokensAtStorage.addAll(credentials);
        }
        String[] parts = exchange.getRequestURI().getPath().split("/");
        Map<String, StoredFile> byEtag = new HashMap<>();
        repositories.get(parts[1] + "/" + parts[2]).files.values().forEach(file -> byEtag.put(file.etag(), file));
        if (number >= holdFrom) {
            hold();
        }
        synchronized (this) {
            if (failures > 0) {
                failures--;
                exchange.getResponseHeaders().set("Retry-After", "0");
                exchange.sendResponseHeaders(429, -1);
                return;
            }
        }
        send(exchange, byEtag.get(parts[3]).content(), ranges, true);
    }

    private void hold() {
        held.countDown();
        try {
            released.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void send(HttpExchange exchange, Content content, boolean withRanges, boolean withFaults)
            throws IOException {
        String range = exchange.getRequestHeaders().getFirst("Range");
        boolean partial = range != null && withRanges;
        long from = partial ? Long.parseLong(range.replaceAll("bytes=([0-9]+)-.*", "$1")) : 0;
        String last = partial ? range.substring(range.indexOf('-') + 1) : "";
        long to = last.isEmpty() ? content.size() : Math.min(content.size(), Long.parseLong(last) + 1);
        if (exchange.getRequestMethod().equals("HEAD")) {
            exchange.getResponseHeaders().set("Content-Length", "" + content.size());
            exchange.sendResponseHeaders(200, -1);
            return;
        }
        if (partial) {
            exchange.getResponseHeaders().set("Content-Range", "bytes " + from + "-" + (to - 1) + "/" + content.size());
        }
        exchange.sendResponseHeaders(partial ? 206 : 200, to == from ? -1 : to - from);
        long end = withFaults ? end(from, to) : to;
        OutputStream out = exchange.getResponseBody();
        for (long at = from; at < end; ) {
            byte[] block = content.block(at / BLOCK);
            int within = (int) (at % BLOCK);
            int count = (int) Math.min(block.length - within, end - at);
            if (withFaults && corrupt) {
                block[within] ^= 1;
            }
            out.write(block, within, count);
            servedBytes.addAndGet(count);
            at += count;
        }
        out.flush(); // the exchange is closed: a body that is too short breaks the connection
    }

    /** Where an answer ends: at its end, or where its connection breaks. */
    private synchronized long end(long from, long to) {
        return chance.nextDouble() < brokenFraction && to > from ? chance.nextLong(from, to) : to;
    }

    private static void refuse(HttpExchange exchange, int status, String code) throws IOException {
        if (!code.isEmpty()) {
            exchange.getResponseHeaders().set("X-Error-Code", code);
        }
        exchange.sendResponseHeaders(status, -1);
    }

    private static void json(HttpExchange exchange, String body) throws IOException {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(200, bytes.length);
        exchange.getResponseBody().write(bytes);
    }

    @Override
    public void close() {
        release();
        hub.stop(0);
        storage.stop(0);
        ((ExecutorService) hub.getExecutor()).shutdownNow();
        ((ExecutorService) storage.getExecutor()).shutdownNow();
    }
}
