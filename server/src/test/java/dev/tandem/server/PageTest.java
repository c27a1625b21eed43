package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.server.http.AccessLog;
import dev.tandem.server.http.OriginPolicy;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;

/** The page at {@code /} as a client of HTTP sees it; {@link BrowserTest} uses it in a browser. */
class PageTest {
    /** All that a browser loads, so that the page opens at once over a slow network. */
    private static final int MAX_BYTES = 150_000;

    private static final Pattern REFERENCE = Pattern.compile("(?:href|src)=\"(/ui/[^\"]+)\"");
    private static final Pattern IMPORT = Pattern.compile("from '\\./([^']+)'");

    private static RawClient.Answer send(RunningServer server, String method, String path, String... headers)
            throws IOException {
        try (RawClient client = server.connect()) {
            client.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    + String.join(
                            "", List.of(headers).stream().map(h -> h + "\r\n").toList()) + "\r\n");
            return client.read(method.equals("HEAD"));
        }
    }

    /** The document's files, and those that they import. */
    private static Set<String> files(RunningServer server) throws IOException {
        String document = server.get("/").body();
        Set<String> files = new LinkedHashSet<>(
                REFERENCE.matcher(document).results().map(r -> r.group(1)).toList());
        List<String> unread = List.copyOf(files);
        while (!unread.isEmpty()) {
            Set<String> imported = new LinkedHashSet<>();
            for (String path : unread) {
                Matcher names = IMPORT.matcher(server.get(path).body());
                String folder = path.substring(0, path.lastIndexOf('/') + 1);
                names.results().map((MatchResult r) -> folder + r.group(1)).forEach(imported::add);
            }
            imported.removeAll(files);
            files.addAll(imported);
            unread = List.copyOf(imported);
        }
        return files;
    }

    @Test
    void everyFileExistsAndAllAreSmall() throws IOException {
        try (RunningServer server = new RunningServer()) {
            Set<String> files = files(server);
            assertThat(files).hasSize(12);
            int bytes = server.get("/").body().length();
            for (String path : files) {
                RawClient.Answer answer = server.get(path);
                assertThat(answer.status()).as(path).isEqualTo(200);
                assertThat(answer.headers().get("content-type")).as(path).isNotEmpty();
                assertThat(answer.headers().get("cache-control"))
                        .as(path)
                        .isEqualTo("public, max-age=31536000, immutable");
                bytes += Integer.parseInt(answer.headers().get("content-length"));
            }
            assertThat(bytes).isLessThan(MAX_BYTES);
        }
    }

    @Test
    void thePolicyRefusesWhatIsNotAFileOfThePage() throws IOException {
        try (RunningServer server = new RunningServer()) {
            RawClient.Answer answer = server.get("/");
            assertThat(answer.status()).isEqualTo(200);
            assertThat(answer.headers().get("content-type")).isEqualTo("text/html; charset=utf-8");
            assertThat(answer.headers().get("content-security-policy"))
                    .contains(
                            "default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'")
                    .doesNotContain("unsafe", "http", "*", "data:");
            assertThat(answer.headers().get("x-content-type-options")).isEqualTo("nosniff");
            assertThat(answer.headers().get("cache-control")).isEqualTo("no-cache");
            assertThat(answer.body()).doesNotContain("style=", "onclick", "//cdn", "@files@");
        }
    }

    /** A browser paints before it has asked for a second file, and runs no script before the body is there. */
    @Test
    void theDocumentIsPaintedByItself() throws IOException, NoSuchAlgorithmException {
        try (RunningServer server = new RunningServer()) {
            RawClient.Answer answer = server.get("/");
            String document = answer.body();
            String style =
                    document.substring(document.indexOf("<style>") + "<style>".length(), document.indexOf("</style>"));
            assertThat(style).contains("header nav").doesNotContain("@style@");
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(style.getBytes(StandardCharsets.UTF_8));
            assertThat(answer.headers().get("content-security-policy"))
                    .contains("'sha256-" + Base64.getEncoder().encodeToString(digest) + "'");
            // a template's files are asked for when a view puts them into the document
            String atOnce = document.replaceAll("(?s)<template.*?</template>", "");
            assertThat(atOnce).doesNotContain("stylesheet", "uPlot");
            assertThat(atOnce.indexOf("<script")).isGreaterThan(atOnce.indexOf("</main>"));
        }
    }

    @Test
    void aKnownDocumentIsNotSentAgain() throws IOException {
        try (RunningServer server = new RunningServer()) {
            String tag = server.get("/").headers().get("etag");
            RawClient.Answer again = send(server, "GET", "/", "If-None-Match: " + tag);
            assertThat(again.status()).isEqualTo(304);
            assertThat(again.body()).isEmpty();
            assertThat(again.headers()).containsEntry("etag", tag).doesNotContainKey("content-length");
            assertThat(send(server, "GET", "/", "If-None-Match: \"other\"").status())
                    .isEqualTo(200);
        }
    }

    /** The opener policy costs a new browser a second process, which is wasted where there is no opener. */
    @Test
    void onlyAPageThatAPersonHasOpenedHasNoOpenerPolicy() throws IOException {
        String policy = "cross-origin-opener-policy";
        try (RunningServer server = new RunningServer()) {
            RawClient.Answer typed = send(server, "GET", "/", "Sec-Fetch-Site: none");
            assertThat(typed.headers()).doesNotContainKey(policy).containsEntry("vary", "Sec-Fetch-Site");
            for (String site : List.of("cross-site", "same-site", "same-origin", "None", "")) {
                assertThat(send(server, "GET", "/", "Sec-Fetch-Site: " + site).headers())
                        .as(site)
                        .containsEntry(policy, "same-origin");
            }
            RawClient.Answer old = send(server, "GET", "/");
            assertThat(old.headers()).containsEntry(policy, "same-origin");
            // a browser that has kept the document of a person takes the policy from the answer to its question
            String tag = typed.headers().get("etag");
            RawClient.Answer known = send(server, "GET", "/", "Sec-Fetch-Site: cross-site", "If-None-Match: " + tag);
            assertThat(known.status()).isEqualTo(304);
            assertThat(known.headers()).containsEntry(policy, "same-origin");
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"/ui/", "/ui/app.js", "/ui/0123456789abcdef/app.js", "/ui/../version.properties"})
    void otherFilesAreNotServed(String path) throws IOException {
        try (RunningServer server = new RunningServer()) {
            assertThat(server.get(path).status()).isEqualTo(404);
        }
    }

    @Test
    void onlyGetAndHeadAreTaken() throws IOException {
        try (RunningServer server = new RunningServer()) {
            RawClient.Answer post = send(server, "POST", "/", "Content-Length: 0");
            assertThat(post.status()).isEqualTo(405);
            assertThat(post.headers()).containsEntry("allow", "GET, HEAD");
            RawClient.Answer head = send(server, "HEAD", "/");
            assertThat(head.status()).isEqualTo(200);
        }
    }

    @Test
    void thePageNeedsNoKeyAndItsDataDoes() throws IOException {
        try (RunningServer server =
                new RunningServer(RunningServer.LIMITS, RunningServer.ORIGINS, Optional.of("secret"))) {
            assertThat(server.get("/").status()).isEqualTo(200);
            assertThat(server.get("/tandem/engine").status()).isEqualTo(401);
            assertThat(send(server, "GET", "/tandem/engine", "Authorization: Bearer secret")
                            .status())
                    .isEqualTo(200);
        }
    }

    @Test
    void withoutThePageTheReasonIsNamed() throws IOException {
        try (RunningServer server = RunningServer.withoutPage()) {
            assertThat(server.get("/").status()).isEqualTo(404);
            assertThat(server.get("/").error()).contains("--no-ui");
            assertThat(server.get("/ui/x/app.js").status()).isEqualTo(404);
            assertThat(server.get("/health").status()).isEqualTo(200);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"http://localhost", "https://localhost"})
    void theServersOwnPageMayUseIt(String origin) throws IOException {
        try (RunningServer server = new RunningServer()) {
            assertThat(send(server, "GET", "/v1/models", "Origin: " + origin).status())
                    .isEqualTo(200);
        }
    }

    @Test
    void aPageOfAnotherPortOrARedirectedNameMayNot() throws IOException {
        OriginPolicy open = new OriginPolicy(false, List.of(), List.of());
        try (RunningServer server = new RunningServer(RunningServer.LIMITS, open, Optional.empty(), AccessLog.OFF)) {
            assertThat(send(server, "GET", "/v1/models", "Origin: http://localhost:3000")
                            .status())
                    .isEqualTo(403);
            try (RawClient client = server.connect()) {
                client.send("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n");
                assertThat(client.read().status()).isEqualTo(403);
            }
        }
    }

    @Test
    void theEngineShowsStepsAndRequests() throws IOException, InterruptedException {
        try (RunningServer server = new RunningServer()) {
            assertThat(server.post("/v1/completions", "{\"prompt\": \"abc\", \"max_tokens\": 5}")
                            .status())
                    .isEqualTo(200);
            JsonNode idle = server.get("/tandem/engine").json();
            assertThat(idle.at("/health/status").asString()).isEqualTo("ok");
            assertThat(idle.at("/strategy/name").asString()).isEqualTo("gpu-only");
            assertThat(idle.at("/steps").size()).isGreaterThanOrEqualTo(5);
            assertThat(idle.at("/steps/0/prefill").asInt()).isPositive();
            assertThat(idle.at("/time_to_first_token_ms/count").asInt()).isEqualTo(1);
            assertThat(idle.at("/inter_token_latency_ms/count").asInt()).isEqualTo(4);
            assertThat(idle.at("/requests/list").size()).isZero();
            assertThat(idle.at("/kv/gpu/blocks").asInt()).isPositive();
        }
    }
}
