package dev.tandem.fetch.hub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.fetch.FetchException;
import dev.tandem.fetch.ModelNotFoundException;
import dev.tandem.fetch.Progress;
import dev.tandem.testkit.FakeHub;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** Downloads from a hub on the loopback address, with faults. */
class HubTest {
    private static final long SEED = 35;
    private static final String REPOSITORY = "some-org/Some-Model";
    private static final HubModel MODEL = HubModel.parse(REPOSITORY).orElseThrow();
    private static final Hub.Settings SMALL_RANGES =
            new Hub.Settings(4, 8, 1 << 20, Duration.ofSeconds(60), Duration.ofMillis(1));

    @TempDir
    Path home;

    private FakeHub hub;

    @BeforeEach
    void start() throws IOException {
        hub = new FakeHub(SEED);
    }

    @AfterEach
    void stop() {
        hub.close();
    }

    private Hub client() {
        return client(Map.of(), SMALL_RANGES);
    }

    private Hub client(Map<String, String> variables) {
        return client(variables, SMALL_RANGES);
    }

    private Hub client(Map<String, String> variables, Hub.Settings settings) {
        Map<String, String> environment =
                new java.util.HashMap<>(Map.of("HF_ENDPOINT", hub.endpoint() + "/", "HF_HOME", home.toString()));
        environment.putAll(variables);
        return new Hub(HubLocation.of(environment, home), Progress.SILENT, settings);
    }

    private static Path fetchAll(Hub client) {
        HubListing listing = client.list(MODEL);
        return client.fetch(listing, listing.files());
    }

    private static String sha256(Path file) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file)));
    }

    private List<Path> incomplete() throws IOException {
        try (Stream<Path> files = Files.walk(home)) {
            return files.filter(file -> file.getFileName().toString().contains(".tandem."))
                    .toList();
        }
    }

    /** A repository with all kinds of files; the weights have a part of a range more than three ranges. */
    private void addModel() {
        hub.add(REPOSITORY, "config.json", "{}".getBytes(StandardCharsets.UTF_8))
                .add(REPOSITORY, "empty.txt", new byte[0])
                .add(REPOSITORY, "folder/with space.json", "[1]".getBytes(StandardCharsets.UTF_8))
                .addNoise(REPOSITORY, "model.safetensors", 3_500_001, SEED);
    }

    @Test
    void filesLieAsInTheHubsCache() throws Exception {
        addModel();
        hub.pageSize(2);
        Path snapshot = fetchAll(client());
        Path repository = home.resolve("hub/models--some-org--Some-Model");
        assertThat(snapshot).isEqualTo(repository.resolve("snapshots").resolve(hub.commit(REPOSITORY)));
        assertThat(repository.resolve("refs/main")).hasContent(hub.commit(REPOSITORY));
        assertThat(snapshot.resolve("config.json")).hasContent("{}");
        assertThat(snapshot.resolve("folder/with space.json")).hasContent("[1]");
        assertThat(snapshot.resolve("empty.txt")).isEmptyFile();
        Path weights = snapshot.resolve("model.safetensors");
        assertThat(Files.readSymbolicLink(weights).toString()).isEqualTo("../../blobs/" + sha256(weights));
        assertThat(repository.resolve("blobs").resolve(sha256(weights))).isRegularFile();
        assertThat(home.resolve("hub/.locks/models--some-org--Some-Model").resolve(sha256(weights) + ".lock"))
                .exists();
        assertThat(incomplete()).isEmpty();
        long served = hub.servedBytes();
        fetchAll(client());
        assertThat(hub.servedBytes()).isEqualTo(served);
    }

    @Test
    void progressReachesTheTotal() {
        addModel();
        List<Long> done = new ArrayList<>();
        Map<String, String> environment = Map.of("HF_ENDPOINT", hub.endpoint(), "HF_HOME", home.toString());
        Hub client = new Hub(
                HubLocation.of(environment, home),
                (what, bytes, total) -> {
                    assertThat(total).isEqualTo(3_500_006);
                    done.add(bytes);
                },
                SMALL_RANGES);
        fetchAll(client);
        assertThat(done).isSorted().last().isEqualTo(3_500_006L);
    }

    @Test
    void brokenConnectionsGoOnWhereTheyBroke() throws Exception {
        hub.addNoise(REPOSITORY, "model.gguf", 40 << 20, SEED);
        hub.breakConnections(0.3);
        HubListing listing = client().list(MODEL);
        Path file = client().fetch(listing, listing.files()).resolve("model.gguf");
        assertThat(sha256(file)).isEqualTo(listing.files().getFirst().etag());
        assertThat(hub.servedBytes()).as("bytes sent twice").isLessThan((40 << 20) + (8 << 20));
    }

    /** As a model of 1 GB from a hub that breaks one connection in twenty. */
    @Test
    @Tag("slow")
    void aGigabyteArrivesThroughBrokenConnections() throws Exception {
        long size = 1_000_000_007;
        hub.addNoise(REPOSITORY, "model.gguf", size, SEED);
        hub.breakConnections(0.05);
        Hub client = client(Map.of(), new Hub.Settings(4, 8, 4 << 20, Duration.ofSeconds(60), Duration.ofMillis(1)));
        HubListing listing = client.list(MODEL);
        Path file = client.fetch(listing, listing.files()).resolve("model.gguf");
        assertThat(file).hasSize(size); // the download has compared the SHA-256
        assertThat(hub.servedBytes()).isBetween(size, size + (200 << 20));
    }

    @Test
    void aServerWithoutRangesSendsTheWholeFile() throws Exception {
        hub.addNoise(REPOSITORY, "model.gguf", 5 << 20, SEED);
        hub.supportRanges(false);
        HubListing listing = client().list(MODEL);
        Path file = client().fetch(listing, listing.files()).resolve("model.gguf");
        assertThat(sha256(file)).isEqualTo(listing.files().getFirst().etag());
        assertThat(hub.servedBytes()).isEqualTo(5 << 20);
    }

    @Test
    void withoutRangesABrokenDownloadBeginsAgain() throws Exception {
        hub.addNoise(REPOSITORY, "model.gguf", 5 << 20, SEED);
        hub.supportRanges(false);
        hub.breakConnections(0.5);
        HubListing listing = client().list(MODEL);
        Path file = client().fetch(listing, listing.files()).resolve("model.gguf");
        assertThat(sha256(file)).isEqualTo(listing.files().getFirst().etag());
    }

    @Test
    void aBusyHubIsAskedAgain() throws Exception {
        hub.addNoise(REPOSITORY, "model.gguf", 1 << 20, SEED);
        hub.failNext(3);
        assertThat(fetchAll(client()).resolve("model.gguf")).hasSize(1 << 20);
        hub.addNoise(REPOSITORY, "model.gguf", 1 << 20, SEED + 1);
        hub.failNext(HubHttp.MAX_ATTEMPTS);
        assertThatThrownBy(() -> fetchAll(client()))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("answered 429")
                .hasMessageContaining("HF_TOKEN");
    }

    @Test
    void aWrongChecksumIsDropped() throws Exception {
        hub.addNoise(REPOSITORY, "model.gguf", 3 << 20, SEED);
        hub.corrupt(true);
        assertThatThrownBy(() -> fetchAll(client()))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("model.gguf")
                .hasMessageContaining("SHA-256")
                .hasMessageContaining("try again");
        assertThat(incomplete()).isEmpty();
        assertThat(client().cached(MODEL)).isEmpty();
        hub.corrupt(false);
        assertThat(fetchAll(client()).resolve("model.gguf")).hasSize(3 << 20);
    }

    @Test
    void aKilledDownloadGoesOnFromItsCompleteRanges() throws Exception {
        int ranges = 6;
        hub.addNoise(REPOSITORY, "model.gguf", (long) ranges * PullProcess.RANGE, SEED);
        hub.holdFrom(4); // three ranges are complete when the fourth is asked for
        Process process = PullProcess.start(hub.endpoint(), home, REPOSITORY);
        hub.awaitHeld();
        process.destroyForcibly().waitFor();
        hub.release();
        assertThat(incomplete()).hasSize(2);
        long before = hub.servedBytes();
        HubListing listing = client().list(MODEL);
        Path file = client().fetch(listing, listing.files()).resolve("model.gguf");
        assertThat(sha256(file)).isEqualTo(listing.files().getFirst().etag());
        // the answer that was held may still be written to the closed connection
        assertThat(hub.servedBytes() - before).isBetween(3L * PullProcess.RANGE, 4L * PullProcess.RANGE);
        assertThat(incomplete()).isEmpty();
    }

    @Test
    void aJournalOfOtherRangesIsNotUsed() throws Exception {
        hub.addNoise(REPOSITORY, "model.gguf", 5 << 20, SEED);
        HubListing listing = client().list(MODEL);
        String etag = listing.files().getFirst().etag();
        Path blobs = Files.createDirectories(home.resolve("hub/models--some-org--Some-Model/blobs"));
        Files.write(blobs.resolve(etag + ".tandem.incomplete"), new byte[5 << 20]);
        Files.writeString(blobs.resolve(etag + ".tandem.journal"), "tandem-ranges 1 5242880 999\n0.\n1.\n");
        assertThat(sha256(client().fetch(listing, listing.files()).resolve("model.gguf")))
                .isEqualTo(etag);
    }

    @Test
    void twoProcessesDownloadOnce() throws Exception {
        addModel();
        hub.holdFrom(2);
        Process first = PullProcess.start(hub.endpoint(), home, REPOSITORY);
        hub.awaitHeld();
        Process second = PullProcess.start(hub.endpoint(), home, REPOSITORY);
        hub.release();
        assertThat(first.waitFor()).isZero();
        assertThat(second.waitFor()).isZero();
        assertThat(hub.servedBytes()).isEqualTo(3_500_006);
    }

    @Test
    void threadsDownloadOnce() throws Exception {
        addModel();
        try (ExecutorService threads = Executors.newFixedThreadPool(4)) {
            List<Future<Path>> snapshots = Stream.generate(() -> threads.submit(() -> fetchAll(client())))
                    .limit(4)
                    .toList();
            for (Future<Path> snapshot : snapshots) {
                assertThat(snapshot.get().resolve("model.safetensors")).hasSize(3_500_001);
            }
        }
        assertThat(hub.servedBytes()).isEqualTo(3_500_006);
    }

    @Test
    void theTokenGoesToTheHubAlone() {
        addModel();
        hub.requireToken("hf_secret");
        assertThat(fetchAll(client(Map.of("HF_TOKEN", "hf_secret"))).resolve("model.safetensors"))
                .exists();
        assertThat(hub.tokensAtStorage()).isEmpty();
    }

    @Test
    void theTokenMayBeInAFile() throws IOException {
        addModel();
        hub.requireToken("hf_secret");
        Files.writeString(home.resolve("token"), "hf_secret\n");
        assertThat(fetchAll(client())).exists();
    }

    private void assertRefused(Map<String, String> variables, HubModel model, String... said) {
        assertThatThrownBy(() -> {
                    Hub client = client(variables);
                    HubListing listing = client.list(model);
                    client.fetch(listing, listing.files());
                })
                .isInstanceOf(FetchException.class)
                .satisfies(
                        error -> assertThat(error.getMessage()).contains(said).doesNotContain("hf_wrong"));
    }

    @Test
    void refusalsNameTheRemedy() {
        addModel();
        HubModel unknown = HubModel.parse("some-org/Other").orElseThrow();
        assertThatThrownBy(() -> client().list(unknown)).isInstanceOf(ModelNotFoundException.class);
        assertRefused(Map.of(), unknown, "no model some-org/Other", hub.endpoint(), "HF_TOKEN");
        assertRefused(Map.of(), HubModel.parse(REPOSITORY + "@v9").orElseThrow(), "no revision v9", "a branch, a tag");
        hub.gate(REPOSITORY);
        assertRefused(Map.of(), MODEL, REPOSITORY + " is gated", "no token is set", "HF_TOKEN");
        assertRefused(Map.of("HF_TOKEN", "hf_wrong"), MODEL, "is gated", "the account of HF_TOKEN has none");
        hub.requireToken("hf_right");
        assertRefused(Map.of("HF_TOKEN", "hf_wrong"), MODEL, "refused the token", "/settings/tokens");
    }

    @Test
    void offlineOnlyTheCacheIsUsed() {
        addModel();
        Map<String, String> offline = Map.of("HF_HUB_OFFLINE", "1");
        assertRefused(offline, MODEL, "HF_HUB_OFFLINE", "tandem pull " + REPOSITORY);
        assertThat(hub.requests()).isEmpty();
        Path snapshot = fetchAll(client());
        HubListing cached = client(offline).cached(MODEL).orElseThrow();
        assertThat(client(offline).snapshot(cached)).isEqualTo(snapshot);
        assertThat(cached.files())
                .hasSize(4)
                .allSatisfy(file -> assertThat(file.etag()).matches("[0-9a-f]{40,64}"));
    }

    @Test
    void withoutNetworkTheErrorNamesTheRemedy() {
        hub.close();
        assertRefused(
                Map.of(), MODEL, hub.endpoint(), "no connection", "Is the network there?", "proxy", "HF_ENDPOINT");
        assertThatThrownBy(() -> client(Map.of("HF_ENDPOINT", "127.0.0.1:80"))).hasMessageContaining("HF_ENDPOINT");
    }

    private static HubListing listing(HubFile... files) {
        return new HubListing(MODEL, "0".repeat(40), List.of(files));
    }

    @Test
    void aFullDiskIsReportedBeforeTheDownload() {
        HubListing large = listing(IntStream.range(0, 1 << 20)
                .mapToObj(i -> new HubFile(i + ".gguf", 50_000_000_000L, "0".repeat(64), true))
                .toArray(HubFile[]::new));
        assertThatThrownBy(() -> client().fetch(large, large.files()))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("bytes free and the download needs " + (50_000_000_000L << 20))
                .hasMessageContaining("HF_HUB_CACHE");
        HubListing huge = listing(new HubFile("model.gguf", 50_000_000_001L, "0".repeat(64), true));
        assertThatThrownBy(() -> client().fetch(huge, huge.files()))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("hf download " + REPOSITORY);
        assertThat(hub.requests()).isEmpty();
    }

    /**
     * The file of the arriving bytes leads to a device that is always full, after an earlier download without a range.
     */
    @Test
    @EnabledOnOs(OS.LINUX)
    void aDiskThatFillsDuringADownloadLeavesNothingWhole() throws Exception {
        hub.addNoise(REPOSITORY, "model.gguf", 3_500_001, SEED);
        HubListing listing = client().list(MODEL);
        String etag = listing.files().getFirst().etag();
        Path blobs = Files.createDirectories(home.resolve("hub/models--some-org--Some-Model/blobs"));
        Path part = blobs.resolve(etag + ".tandem.incomplete");
        Files.createSymbolicLink(part, Path.of("/dev/full"));
        Files.writeString(blobs.resolve(etag + ".tandem.journal"), "tandem-ranges 1 3500001 1048576\n");
        assertThatThrownBy(() -> client().fetch(listing, listing.files()))
                .isInstanceOf(FetchException.class)
                .hasMessageMatching("cannot write " + part + ": No space left on device, with \\d+ bytes free on the"
                        + " disk; free some space, or set HF_HUB_CACHE to a directory elsewhere");
        assertThat(blobs.resolve(etag)).doesNotExist();
        assertThat(client().cached(MODEL)).isEmpty();
        assertThat(client().snapshot(listing)).doesNotExist();
        Files.delete(part); // there is space again
        assertThat(sha256(client().fetch(listing, listing.files()).resolve("model.gguf")))
                .isEqualTo(etag);
    }

    @Test
    void anInterruptedDownloadSaysThatItGoesOn() {
        addModel();
        HubListing listing = client().list(MODEL);
        Thread.currentThread().interrupt();
        assertThatThrownBy(() -> client().fetch(listing, listing.files()))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("was interrupted; the same command goes on from there");
        assertThat(Thread.interrupted()).isTrue();
    }

    @Test
    void namesThatLeaveTheCacheAreRefused() {
        for (String path : List.of("/etc/passwd", "../x", "a/../../x", "a//b", "a\\b", "")) {
            HubFile file = new HubFile(path, 1, "0".repeat(40), false);
            assertThatThrownBy(() -> HubCache.requireSafe(MODEL, file)).as(path).isInstanceOf(FetchException.class);
        }
        HubFile wrongEtag = new HubFile("a", 1, "../../x", false);
        assertThatThrownBy(() -> HubCache.requireSafe(MODEL, wrongEtag)).isInstanceOf(FetchException.class);
        assertThat(HubModel.parse("some-org/..")).isEmpty();
        assertThat(HubModel.parse("some-org/model@../x")).isEmpty();
    }

    @Test
    void aHeaderIsReadWithoutTheCache() {
        addModel();
        HubListing listing = client().list(MODEL);
        HubFile weights =
                listing.files().stream().filter(HubFile::large).findFirst().orElseThrow();
        byte[] ranged = client().read(listing, weights, 100, 50);
        hub.supportRanges(false);
        assertThat(client().read(listing, weights, 100, 50)).isEqualTo(ranged);
        assertThat(home.resolve("hub")).doesNotExist();
    }

    @Test
    void deletingKeepsBlobsOfOtherRevisions() {
        addModel();
        fetchAll(client());
        HubListing old = client().cached(MODEL).orElseThrow();
        hub.add(REPOSITORY, "config.json", "{\"new\": 1}".getBytes(StandardCharsets.UTF_8));
        Path snapshot = fetchAll(client());
        List<HubListing> all = client().cached();
        assertThat(all).extracting(HubListing::commit).containsExactly(hub.commit(REPOSITORY), old.commit());
        assertThat(all.get(1).model().toString()).isEqualTo(REPOSITORY + "@" + old.commit());
        assertThat(client().remove(all.get(1), all.get(1).files())).isEqualTo(2);
        assertThat(snapshot.resolve("model.safetensors")).hasSize(3_500_001);
        assertThat(client().cached()).hasSize(1);
        HubListing last = client().cached(MODEL).orElseThrow();
        assertThat(client().remove(last, last.files())).isEqualTo(3_500_001 + 3 + 10);
        assertThat(home.resolve("hub/models--some-org--Some-Model")).doesNotExist();
        assertThat(client().cached()).isEmpty();
    }

    @Test
    void locationsFollowTheEnvironment() {
        assertThat(HubLocation.of(Map.of(), home).cache()).isEqualTo(home.resolve(".cache/huggingface/hub"));
        assertThat(HubLocation.of(Map.of("XDG_CACHE_HOME", "/x"), home).cache())
                .isEqualTo(Path.of("/x/huggingface/hub"));
        assertThat(HubLocation.of(Map.of("HF_HOME", "~/hf"), home).cache()).isEqualTo(home.resolve("hf/hub"));
        HubLocation location = HubLocation.of(
                Map.of("HF_HOME", "/h", "HF_HUB_CACHE", "/c", "HF_TOKEN", " hf_x ", "HF_HUB_OFFLINE", "YES"), home);
        assertThat(location).isEqualTo(new HubLocation(location.endpoint(), Path.of("/c"), Optional.of("hf_x"), true));
        assertThat(location.toString()).doesNotContain("hf_x");
        assertThat(location.endpoint().getScheme())
                .isEqualTo(URI.create("https://h").getScheme());
    }
}
