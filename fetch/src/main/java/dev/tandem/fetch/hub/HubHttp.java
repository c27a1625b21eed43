package dev.tandem.fetch.hub;

import dev.tandem.fetch.FetchException;
import dev.tandem.fetch.ModelNotFoundException;
import dev.tandem.fetch.StallWatch;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.Set;

/**
 * Sends requests to the hub. The token goes to the hub's own address only: files lie on other hosts, to which the hub
 * redirects. Requests that fail for a reason that may pass are sent again.
 *
 * <p>Owned by: thread-safe.
 */
final class HubHttp {
    private static final int MAX_REDIRECTS = 5;
    /** A page of the file list has about 1,000 files of 300 bytes. */
    private static final int MAX_PAGE = 32 << 20;
    /** Requests in a row without a received byte. Three were not enough where a hub breaks one connection in twenty. */
    static final int MAX_ATTEMPTS = 6;
    /** A hub that asks for a longer pause is reported instead. */
    private static final Duration MAX_PAUSE = Duration.ofSeconds(60);

    private static final Set<Integer> REDIRECTS = Set.of(301, 302, 303, 307, 308);

    /** Created at the first request, because it takes a third of a second. */
    private static final class Client {
        static final HttpClient SHARED = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1) // ranges in parallel need connections of their own
                .followRedirects(HttpClient.Redirect.NEVER)
                .connectTimeout(Duration.ofSeconds(20))
                .build();
    }

    private final HubLocation location;
    private final Duration maxWait;
    private final Duration pause;

    /**
     * @param maxWait max time for an answer to begin, and for each further {@link StallWatch#MIN_BYTES}
     * @param pause before the first repetition of a request; each further one waits twice as long
     */
    HubHttp(HubLocation location, Duration maxWait, Duration pause) {
        this.location = location;
        this.maxWait = maxWait;
        this.pause = pause;
    }

    /**
     * The answer to a request for bytes of a file.
     *
     * @param whole whether the body is the whole file, because the server does not support ranges
     */
    record Bytes(InputStream in, boolean whole) {}

    /** A page of the hub's API, and the address of the next one; empty if it is the last. */
    record Page(String text, String next) {}

    /** An answer that may be another one later. */
    private static final class TemporaryFailure extends IOException {
        final OptionalLong retryAfterSeconds;

        TemporaryFailure(String message, OptionalLong retryAfterSeconds) {
            super(message);
            this.retryAfterSeconds = retryAfterSeconds;
        }
    }

    /** Work that is done again after an {@link IOException}. */
    interface Attempt<T> {
        T run() throws IOException, InterruptedException;
    }

    /**
     * Reads a page of the API.
     *
     * @throws FetchException when the hub cannot be reached, or refuses
     */
    Page page(URI address, HubModel model) throws InterruptedException {
        return repeated(() -> {
            HttpResponse<InputStream> response;
            try {
                response = send(address, "", model, "");
            } catch (ConnectException e) { // nothing has answered yet: more likely no network than a busy hub
                throw unreachable(e);
            }
            try (InputStream in = response.body();
                    StallWatch watch = new StallWatch(in, maxWait)) {
                ByteArrayOutputStream page = new ByteArrayOutputStream();
                byte[] buffer = new byte[1 << 16];
                for (int n = read(in, buffer, watch); n >= 0; n = read(in, buffer, watch)) {
                    page.write(buffer, 0, n);
                    if (page.size() > MAX_PAGE) {
                        throw new FetchException("the hub's answer about " + model + " has more than " + MAX_PAGE
                                + " bytes; check HF_ENDPOINT, " + location.endpoint());
                    }
                }
                String next = response.headers().allValues("Link").stream()
                        .filter(link -> link.contains("rel=\"next\"") && link.startsWith("<") && link.contains(">"))
                        .map(link -> link.substring(1, link.indexOf('>')))
                        .findFirst()
                        .orElse("");
                return new Page(page.toString(StandardCharsets.UTF_8), next);
            }
        });
    }

    /** Runs work again while it fails for reasons that may pass, with growing pauses. */
    <T> T repeated(Attempt<T> work) throws InterruptedException {
        for (int failures = 1; ; failures++) {
            try {
                return work.run();
            } catch (IOException e) {
                pauseAfter(failures, e);
            }
        }
    }

    /**
     * Waits before the next attempt.
     *
     * @param failures attempts in a row that received nothing
     * @throws FetchException when there were too many
     */
    void pauseAfter(int failures, IOException e) throws InterruptedException {
        Duration wait = pause.multipliedBy(1L << Math.min(failures - 1, MAX_ATTEMPTS));
        if (e instanceof TemporaryFailure failure && failure.retryAfterSeconds.isPresent()) {
            wait = Duration.ofSeconds(failure.retryAfterSeconds.getAsLong());
        }
        if (failures >= MAX_ATTEMPTS || wait.compareTo(MAX_PAUSE) > 0) {
            throw unreachable(e);
        }
        Thread.sleep(wait);
    }

    private FetchException unreachable(IOException e) {
        String reason = e instanceof ConnectException
                ? "no connection; its address is unknown or does not answer"
                : e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage();
        return new FetchException(
                "the hub at " + location.endpoint() + " cannot be used: " + reason
                        + ". Is the network there? What has arrived is kept, and the same command goes on from there."
                        + " With a proxy, set TANDEM_JAVA_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT';"
                        + " a mirror is set by HF_ENDPOINT",
                e);
    }

    /** Reads from a body of {@link #open}; fails when it stalls. */
    int read(InputStream in, byte[] buffer, StallWatch watch) throws IOException {
        try {
            int n = in.read(buffer);
            watch.read(Math.max(0, n));
            return n;
        } catch (IOException e) {
            throw watch.stalled()
                    ? new IOException(
                            "the download stalled: less than " + StallWatch.MIN_BYTES + " bytes came within "
                                    + maxWait.toSeconds() + " s",
                            e)
                    : e;
        }
    }

    StallWatch watch(InputStream in) {
        return new StallWatch(in, maxWait);
    }

    /**
     * Asks for bytes of a file.
     *
     * @param from the first byte
     * @param to the byte after the last one
     * @throws IOException when a later attempt may succeed
     * @throws FetchException when the hub refuses
     */
    Bytes open(HubListing listing, HubFile file, long from, long to) throws IOException, InterruptedException {
        URI address = URI.create(location.endpoint() + "/" + listing.model().repository() + "/resolve/"
                + listing.commit() + "/" + HubListing.escaped(file.path()));
        HttpResponse<InputStream> response =
                send(address, "bytes=" + from + "-" + (to - 1), listing.model(), file.etag());
        return new Bytes(response.body(), response.statusCode() == 200);
    }

    /**
     * Sends a GET request and follows redirects.
     *
     * @param range value of the header; empty for none
     * @param etag the ETag that the hub must name; empty for any
     */
    private HttpResponse<InputStream> send(URI address, String range, HubModel model, String etag)
            throws IOException, InterruptedException {
        URI at = address;
        for (int redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
            boolean ofHub = isOfHub(at);
            HttpRequest.Builder request = HttpRequest.newBuilder(at).timeout(maxWait);
            if (!range.isEmpty()) {
                request.header("Range", range);
            }
            if (ofHub) {
                location.token().ifPresent(token -> request.header("Authorization", "Bearer " + token));
            }
            HttpResponse<InputStream> response =
                    Client.SHARED.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
            if (ofHub && response.statusCode() < 400) {
                requireEtag(response, etag, model);
            }
            if (response.statusCode() == 200 || response.statusCode() == 206 && !range.isEmpty()) {
                return response;
            }
            response.body().close();
            if (!REDIRECTS.contains(response.statusCode())) {
                throw refused(response, at, model);
            }
            at = at.resolve(response.headers()
                    .firstValue("Location")
                    .orElseThrow(() -> new IOException("a redirect of the hub names no address")));
        }
        throw new FetchException("the hub redirects more than " + MAX_REDIRECTS + " times for " + model
                + "; check HF_ENDPOINT, " + location.endpoint());
    }

    private boolean isOfHub(URI address) {
        URI hub = location.endpoint();
        return hub.getScheme().equals(address.getScheme())
                && hub.getHost().equals(address.getHost())
                && hub.getPort() == address.getPort();
    }

    /** The first answer of the hub names the file's ETag; an answer to a relative redirect may lack it. */
    private static void requireEtag(HttpResponse<InputStream> response, String expected, HubModel model)
            throws IOException {
        String header = response.headers()
                .firstValue("X-Linked-Etag")
                .or(() -> response.headers().firstValue("ETag"))
                .orElse(expected);
        String named = header.replaceFirst("^W/", "").replace("\"", "");
        if (!expected.isEmpty() && !named.equals(expected) && named.matches("[0-9a-f]{40}|[0-9a-f]{64}")) {
            response.body().close();
            throw new FetchException("a file of " + model + " changed while it was downloaded: it has the ETag " + named
                    + ", not " + expected + "; try again");
        }
    }

    /** The error for an answer without content. */
    private IOException refused(HttpResponse<InputStream> response, URI address, HubModel model) {
        int status = response.statusCode();
        String code = response.headers().firstValue("X-Error-Code").orElse("");
        if (status == 408 || status == 429 || status >= 500 || status == 403 && !isOfHub(address)) {
            return new TemporaryFailure(
                    "it answered " + status + " for " + model
                            + (status == 429 ? ": too many requests; set HF_TOKEN for a higher limit" : ""),
                    response.headers()
                            .firstValue("Retry-After")
                            .filter(value -> value.matches("[0-9]{1,6}"))
                            .map(value -> OptionalLong.of(Long.parseLong(value)))
                            .orElse(OptionalLong.empty()));
        }
        String page = location.endpoint() + "/" + model.repository();
        boolean token = location.token().isPresent();
        if (code.equals("GatedRepo")) {
            throw new FetchException("the model " + model.repository() + " is gated: its owner must grant access, and "
                    + (token ? "the account of HF_TOKEN has none" : "no token is set")
                    + ". Ask for access at " + page + (token ? "" : ", then set HF_TOKEN to a token of that account"));
        }
        boolean invalidToken =
                response.headers().firstValue("X-Error-Message").orElse("").contains("Invalid credentials");
        if (status == 401 && token && (code.isEmpty() || invalidToken)) {
            throw new FetchException("the hub refused the token for " + model.repository()
                    + " (401): HF_TOKEN or the file token in HF_HOME is wrong or has expired; make a new one at "
                    + location.endpoint() + "/settings/tokens, or unset it for models that all may read");
        }
        switch (code) {
            case "RevisionNotFound" ->
                throw new FetchException("the model " + model.repository() + " has no revision " + model.revision()
                        + "; give a branch, a tag or a commit of " + page + "/commits");
            case "EntryNotFound" ->
                throw new FetchException("the hub answered 404 for " + address.getPath()
                        + ", a file that it lists; try again, or look at " + page);
            default -> {}
        }
        if (status == 404 || status == 401) {
            throw new ModelNotFoundException("the hub at " + location.endpoint() + " has no model "
                    + model.repository() + (token ? " that the account of HF_TOKEN may read" : "")
                    + "; check the name" + (token ? "" : "; a private model needs HF_TOKEN"));
        }
        throw new FetchException("the hub answered " + status + " for " + model + "; look at " + page);
    }
}
