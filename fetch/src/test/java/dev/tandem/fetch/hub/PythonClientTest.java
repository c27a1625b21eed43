package dev.tandem.fetch.hub;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.fetch.Progress;
import dev.tandem.testkit.FakeHub;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * The cache is the one of the hub's official Python client. Runs where {@code TANDEM_TEST_PYTHON}, or else
 * {@code python3}, has the package {@code huggingface_hub}.
 */
@Timeout(60)
class PythonClientTest {
    private static final long SEED = 36;
    private static final String REPOSITORY = "some-org/Some-Model";
    private static final HubModel MODEL = HubModel.parse(REPOSITORY).orElseThrow();
    private static final String PYTHON =
            Optional.ofNullable(System.getenv("TANDEM_TEST_PYTHON")).orElse("python3");

    @TempDir
    Path home;

    private FakeHub hub;

    @BeforeEach
    void start() throws Exception {
        hub = new FakeHub(SEED);
        hub.add(REPOSITORY, "config.json", "{}".getBytes(StandardCharsets.UTF_8))
                .add(REPOSITORY, "folder/other.json", "[1]".getBytes(StandardCharsets.UTF_8))
                .addNoise(REPOSITORY, "model.safetensors", 3_500_001, SEED);
        Assumptions.assumeTrue(isInstalled(), "no huggingface_hub for " + PYTHON);
    }

    @AfterEach
    void stop() {
        hub.close();
    }

    private boolean isInstalled() throws Exception {
        try {
            return process("import huggingface_hub").waitFor() == 0;
        } catch (IOException e) {
            return false; // no Python
        }
    }

    private Process process(String script) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(PYTHON, "-c", script)
                .redirectError(home.resolve("errors.txt").toFile());
        builder.environment().put("HF_ENDPOINT", hub.endpoint());
        builder.environment().put("HF_HOME", home.toString());
        builder.environment().put("HF_HUB_DISABLE_TELEMETRY", "1");
        builder.environment().keySet().removeAll(List.of("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE"));
        return builder.start();
    }

    /** The output of a script. */
    private String python(String script) throws Exception {
        Process process = process(script);
        String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(() -> script + "\n" + errors()).isZero();
        return out.strip();
    }

    private String errors() {
        try {
            return Files.readString(home.resolve("errors.txt"));
        } catch (IOException e) {
            return e.toString();
        }
    }

    private Hub client() {
        return new Hub(
                HubLocation.of(Map.of("HF_ENDPOINT", hub.endpoint(), "HF_HOME", home.toString()), home),
                Progress.SILENT,
                new Hub.Settings(4, 8, 1 << 20, Duration.ofSeconds(60), Duration.ofMillis(1)));
    }

    private Path fetchAll() {
        HubListing listing = client().list(MODEL);
        return client().fetch(listing, listing.files());
    }

    @Test
    void itReadsWhatWasDownloadedHere() throws Exception {
        Path snapshot = fetchAll();
        long served = hub.servedBytes();
        String script = "from huggingface_hub import snapshot_download, scan_cache_dir\n"
                + "print(snapshot_download('" + REPOSITORY + "', local_files_only=True))\n"
                + "snapshot_download('" + REPOSITORY + "')\n"
                + "info = scan_cache_dir()\n"
                + "print(len(info.warnings), [r.repo_id for r in info.repos], info.size_on_disk)\n";
        assertThat(python(script).lines())
                .containsExactly(snapshot.toString(), "0 ['" + REPOSITORY + "'] " + (3_500_001 + 2 + 3));
        assertThat(hub.servedBytes()).isEqualTo(served);
    }

    @Test
    void whatItDownloadedIsUsedHere() throws Exception {
        String snapshot =
                python("from huggingface_hub import snapshot_download\nprint(snapshot_download('" + REPOSITORY + "'))");
        long served = hub.servedBytes();
        assertThat(client().cached(MODEL).orElseThrow().files()).hasSize(3);
        assertThat(fetchAll().toRealPath()).isEqualTo(Path.of(snapshot).toRealPath());
        assertThat(hub.servedBytes()).isEqualTo(served);
        HubListing cached = client().cached(MODEL).orElseThrow();
        client().remove(cached, cached.files());
        assertThat(python("from huggingface_hub import scan_cache_dir\nprint(len(scan_cache_dir().repos))"))
                .isEqualTo("0");
    }

    @Test
    void bothWaitForOneDownload() throws Exception {
        hub.holdFrom(1);
        Process other =
                process("from huggingface_hub import snapshot_download\nsnapshot_download('" + REPOSITORY + "')");
        hub.awaitHeld(); // it holds the lock of the weights
        int before = hub.requests().size();
        Thread release = Thread.ofPlatform().start(() -> {
            while (hub.requests().size() < before + 2) {
                Thread.onSpinWait();
            }
            hub.release();
        });
        Path snapshot = fetchAll();
        release.join();
        assertThat(other.waitFor()).as(this::errors).isZero();
        assertThat(snapshot.resolve("model.safetensors")).hasSize(3_500_001);
        assertThat(hub.servedBytes()).isLessThan(3_500_001 + 20);
    }
}
