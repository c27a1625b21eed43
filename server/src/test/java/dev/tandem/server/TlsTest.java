package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.server.http.AccessLog;
import dev.tandem.server.http.Tls;
import dev.tandem.server.openai.ApiKeys;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Base64;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** TLS with a certificate made for the test. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class TlsTest {
    private static final String PASSWORD = "changeit";

    @TempDir
    static Path folder;

    private static KeyStore store;
    private static Path certificate;
    private static Path key;

    @BeforeAll
    static void makeCertificate() throws Exception {
        Path file = folder.resolve("store.p12");
        Process keytool = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "keytool")
                                .toString(),
                        "-genkeypair",
                        "-alias",
                        "server",
                        "-keyalg",
                        "EC",
                        "-dname",
                        "CN=localhost",
                        "-ext",
                        "san=dns:localhost,ip:127.0.0.1",
                        "-storetype",
                        "PKCS12",
                        "-keystore",
                        file.toString(),
                        "-storepass",
                        PASSWORD)
                .redirectErrorStream(true)
                .start();
        String output = new String(keytool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(keytool.waitFor()).as(output).isZero();
        store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(file)) {
            store.load(in, PASSWORD.toCharArray());
        }
        certificate = pem(
                "certificate.pem", "CERTIFICATE", store.getCertificate("server").getEncoded());
        key = pem(
                "key.pem",
                "PRIVATE KEY",
                store.getKey("server", PASSWORD.toCharArray()).getEncoded());
    }

    private static Path pem(String name, String kind, byte[] content) throws Exception {
        String lines = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(content);
        return Files.writeString(
                folder.resolve(name), "-----BEGIN " + kind + "-----\n" + lines + "\n-----END " + kind + "-----\n");
    }

    private static RunningServer serve() {
        return new RunningServer(
                RunningServer.LIMITS,
                RunningServer.ORIGINS,
                Optional.of(Tls.of(certificate, key)),
                ApiKeys.NONE,
                AccessLog.OFF);
    }

    private static HttpClient client() throws Exception {
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        trusted.setCertificateEntry("server", store.getCertificate("server"));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return HttpClient.newBuilder()
                .sslContext(context)
                .version(HttpClient.Version.HTTP_1_1)
                .build();
    }

    @Test
    void answersAndStreamsAreEncrypted() throws Exception {
        try (RunningServer server = serve();
                HttpClient client = client()) {
            String url = "https://localhost:" + server.port();
            HttpResponse<String> health = client.send(
                    HttpRequest.newBuilder(URI.create(url + "/health")).build(), HttpResponse.BodyHandlers.ofString());
            assertThat(health.body()).contains("ok");
            String stream = "{\"prompt\": \"ab\", \"max_tokens\": 200, \"ignore_eos\": true, \"stream\": true}";
            HttpResponse<String> events = client.send(
                    HttpRequest.newBuilder(URI.create(url + "/v1/completions"))
                            .header("Content-Type", "application/json")
                            .POST(HttpRequest.BodyPublishers.ofString(stream))
                            .build(),
                    HttpResponse.BodyHandlers.ofString());
            assertThat(events.body()).endsWith("data: [DONE]\n\n");
        }
    }

    @Test
    void aConnectionThatIsNotKeptEndsWithTheWholeAnswer() throws Exception {
        try (RunningServer server = serve();
                HttpClient client = client()) {
            HttpResponse<String> answer = client.send(
                    HttpRequest.newBuilder(URI.create("https://127.0.0.1:" + server.port() + "/v1/completions"))
                            .header("Content-Type", "application/json")
                            .POST(HttpRequest.BodyPublishers.ofString("x".repeat(70_000)))
                            .build(),
                    HttpResponse.BodyHandlers.ofString());
            assertThat(answer.statusCode()).isEqualTo(413);
            assertThat(answer.headers().firstValue("connection")).hasValue("close");
            assertThat(answer.body()).endsWith("}");
        }
    }

    @Test
    void plainHttpIsNotServed() throws Exception {
        try (RunningServer server = serve();
                RawClient plain = server.connect()) {
            plain.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assertThatThrownBy(plain::read).isInstanceOf(Exception.class);
        }
    }

    @Test
    void wrongFilesAreNamed() throws Exception {
        assertThatThrownBy(() -> Tls.of(folder.resolve("none.pem"), key))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--ssl-certfile")
                .hasMessageContaining("none.pem");
        assertThatThrownBy(() -> Tls.of(certificate, folder))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--ssl-keyfile");
        Path broken = Files.writeString(folder.resolve("broken.pem"), "no key");
        assertThatThrownBy(() -> Tls.of(certificate, broken))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("broken.pem")
                .hasMessageContaining("PKCS #8");
    }
}
