package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.fetch.FetchException;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.WheelModel;
import dev.tandem.model.Checkpoint;
import dev.tandem.testkit.FakeHub;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Models by name, from a hub on the loopback address. */
class ModelStoreTest {
    private static final String DIRECTORY = "some-org/Small";
    private static final String GGUF = "some-org/Small-GGUF";
    private static final String PART_1 = "model-Q4_1-00001-of-00002.gguf";
    private static final String PART_2 = "model-Q4_1-00002-of-00002.gguf";
    private static Path smollm2;

    @TempDir
    Path home;

    private FakeHub hub;
    private final ByteArrayOutputStream said = new ByteArrayOutputStream();

    /** The default model's file, with which the other tests of this module start servers, too. */
    @BeforeAll
    static void fetchDefaultModel() {
        smollm2 = ModelStore.ofUser().open(DefaultModel.REFERENCE, true);
    }

    @BeforeEach
    void start() throws IOException {
        hub = new FakeHub(37);
    }

    @AfterEach
    void stop() {
        hub.close();
    }

    private ModelStore store(String... variables) {
        Map<String, String> environment = new HashMap<>(Map.of(
                "HF_ENDPOINT", hub.endpoint(),
                "HF_HOME", home.resolve("hf").toString(),
                "TANDEM_CACHE", home.resolve("tandem").toString()));
        for (int i = 0; i < variables.length; i += 2) {
            environment.put(variables[i], variables[i + 1]);
        }
        return new ModelStore(environment, home, Progress.SILENT, new PrintStream(said));
    }

    private Path open(String model, String... variables) {
        return store(variables).open(ModelReference.parse(model), true);
    }

    private Path pull(String model) {
        return store().pull(ModelReference.parse(model), true);
    }

    private void addDirectory(String config) throws IOException {
        Path folder = DummyModel.write(home.resolve("source"));
        hub.add(DIRECTORY, "config.json", config.getBytes(StandardCharsets.UTF_8))
                .add(DIRECTORY, "tokenizer.json", Files.readAllBytes(folder.resolve("tokenizer.json")))
                .add(DIRECTORY, "tokenizer_config.json", Files.readAllBytes(folder.resolve("tokenizer_config.json")))
                .addNoise(DIRECTORY, "model.safetensors", 3 << 20, 1)
                .addNoise(DIRECTORY, "pytorch_model.bin", 1 << 20, 2);
    }

    private String config() throws IOException {
        return Files.readString(DummyModel.write(home.resolve("source")).resolve("config.json"));
    }

    @Test
    void aDirectoryIsDownloadedOnceWithoutOtherFormats() throws IOException {
        addDirectory(config());
        Path opened = open(DIRECTORY);
        assertThat(opened.resolve("model.safetensors")).hasSize(3 << 20);
        assertThat(opened.resolve("pytorch_model.bin")).doesNotExist();
        int requests = hub.requests().size();
        assertThat(open(DIRECTORY)).isEqualTo(opened);
        assertThat(open(DIRECTORY, "HF_HUB_OFFLINE", "1")).isEqualTo(opened);
        assertThat(hub.requests()).as("a model in the cache needs no hub").hasSize(requests);
    }

    @Test
    void pullTakesTheNewestCommitAndServeTheOneInTheCache() throws IOException {
        addDirectory(config());
        Path first = open(DIRECTORY);
        hub.addNoise(DIRECTORY, "model.safetensors", 3 << 20, 9);
        assertThat(open(DIRECTORY)).isEqualTo(first);
        Path second = pull(DIRECTORY);
        assertThat(second.getFileName()).hasToString(hub.commit(DIRECTORY));
        assertThat(open(DIRECTORY)).isEqualTo(second);
        assertThat(store().remove(ModelReference.parse(DIRECTORY))).isGreaterThan(6 << 20);
        assertThat(store().present()).isEmpty();
    }

    @Test
    void aPullThatFailsLeavesTheOlderCommit() throws IOException {
        addDirectory(config());
        Path first = open(DIRECTORY);
        hub.addNoise(DIRECTORY, "model.safetensors", 3 << 20, 9);
        hub.corrupt(true);
        assertThatThrownBy(() -> pull(DIRECTORY)).isInstanceOf(FetchException.class);
        assertThat(open(DIRECTORY)).isEqualTo(first);
    }

    private void assertRefusedBeforeTheWeights(String model, String... said) {
        long before = hub.servedBytes();
        assertThatThrownBy(() -> open(model))
                .isInstanceOf(ConfigurationException.class)
                .satisfies(error -> assertThat(error.getMessage()).contains(said));
        assertThat(hub.servedBytes() - before).isLessThan(3 << 20);
    }

    @Test
    void otherFamiliesAreRefusedBeforeTheWeightsAreDownloaded() throws IOException {
        addDirectory(config().replace("llama", "bert"));
        assertRefusedBeforeTheWeights(DIRECTORY, DIRECTORY, "model_type 'bert'", "llama");
        addDirectory(config().replaceFirst("\\{", "{\"quantization_config\": {\"quant_method\": \"awq\"}, "));
        assertRefusedBeforeTheWeights(DIRECTORY, DIRECTORY, "quantised (awq)", "GGUF");
        Path pulled = store().pull(ModelReference.parse(DIRECTORY), false);
        assertThat(pulled.resolve("model.safetensors")).exists();
    }

    @Test
    void aGgufFileIsCheckedByItsMetadata() throws IOException {
        byte[] other = Files.readAllBytes(smollm2);
        byte[] name = "llama".getBytes(StandardCharsets.UTF_8);
        int at = 0;
        while (!Arrays.equals(other, at, at + name.length, name, 0, name.length)) {
            at++;
        }
        other[at] = 'x';
        hub.addLarge(GGUF, "model-Q8_0.gguf", other);
        long before = hub.servedBytes();
        assertThatThrownBy(() -> open(GGUF + ":Q8_0"))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining(GGUF + ":Q8_0 cannot be served, and its weights were not downloaded")
                .hasMessageContaining("model-Q8_0.gguf: GGUF architecture 'xlama' is not supported");
        assertThat(hub.servedBytes() - before).isLessThan(other.length / 2);
        assertThat(home.resolve("hf")).doesNotExist();
    }

    @Test
    void aGgufFileIsDownloadedListedAndDeleted() throws IOException {
        hub.addFile(GGUF, "model-Q4_1.gguf", smollm2);
        Path file = pull(GGUF + ":q4_1");
        assertThat(Files.mismatch(file, smollm2)).isEqualTo(-1);
        assertThat(open(GGUF)).isEqualTo(file);
        assertThat(store().present())
                .containsExactly(new ModelStore.Present(GGUF + ":Q4_1", Files.size(smollm2), file.getParent()));
        assertThatThrownBy(() -> store().remove(ModelReference.parse(GGUF + ":Q8_0")))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("not in the cache")
                .hasMessageContaining("tandem list");
        assertThat(store().remove(ModelReference.parse(GGUF + ":Q4_1"))).isEqualTo(Files.size(smollm2));
        assertThat(store().present()).isEmpty();
    }

    private static void writeEntry(ByteArrayOutputStream out, String key, int value) {
        ByteBuffer entry = ByteBuffer.allocate(8 + key.length() + 4 + 4).order(ByteOrder.LITTLE_ENDIAN);
        entry.putLong(key.length()).put(key.getBytes(StandardCharsets.UTF_8));
        out.writeBytes(entry.putInt(4).putInt(value).array()); // 4: an unsigned integer of 32 bits
    }

    /** A part of two, with the entries and the tensors that are given as bytes. */
    private static byte[] part(int number, int tensors, int allTensors, int entries, byte[] metadata, byte[] data) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteBuffer head = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
        out.writeBytes(head.put("GGUF".getBytes(StandardCharsets.UTF_8))
                .putInt(3)
                .putLong(tensors)
                .putLong(entries + 3)
                .array());
        writeEntry(out, "split.no", number);
        writeEntry(out, "split.count", 2);
        writeEntry(out, "split.tensors.count", allTensors);
        out.writeBytes(metadata);
        out.writeBytes(data);
        return out.toByteArray();
    }

    /** Adds the default model in two parts to the hub: one with all metadata, one with all tensors. */
    private void addParts() throws IOException {
        byte[] whole = Files.readAllBytes(smollm2);
        ByteBuffer head = ByteBuffer.wrap(whole).order(ByteOrder.LITTLE_ENDIAN);
        int tensors = (int) head.getLong(8);
        int entries = (int) head.getLong(16);
        String embeddings = "token_embd.weight"; // with its length in front it begins the descriptions of the tensors
        int descriptions = new String(whole, 0, 8 << 20, StandardCharsets.ISO_8859_1)
                .indexOf((char) embeddings.length() + "\0\0\0\0\0\0\0" + embeddings);
        int end = (int) GgufHead.measure(whole).orElseThrow().bytes();
        byte[] metadata = Arrays.copyOfRange(whole, 24, descriptions);
        ByteArrayOutputStream second = new ByteArrayOutputStream();
        second.writeBytes(part(1, tensors, tensors, 0, new byte[0], Arrays.copyOfRange(whole, descriptions, end)));
        second.writeBytes(new byte[Math.floorMod(-second.size(), 32)]);
        second.writeBytes(Arrays.copyOfRange(whole, end + Math.floorMod(-end, 32), whole.length));
        hub.addLarge(GGUF, PART_1, part(0, 0, tensors, entries, metadata, new byte[0]))
                .addLarge(GGUF, PART_2, second.toByteArray());
    }

    @Test
    void aGgufFileInPartsIsOneModel() throws IOException {
        addParts();
        Path first = pull(GGUF + ":q4_1");
        assertThat(first.getFileName()).hasToString(PART_1);
        Path second = first.resolveSibling(PART_2);
        try (Checkpoint parts = Checkpoint.open(first, Checkpoint.LoadFormat.AUTO, 0);
                Checkpoint whole = Checkpoint.open(smollm2, Checkpoint.LoadFormat.AUTO, 0)) {
            assertThat(parts.spec()).isEqualTo(whole.spec());
            String norm = "model.norm.weight";
            assertThat(parts.weights().vector(norm, 576))
                    .isEqualTo(whole.weights().vector(norm, 576));
        }
        long bytes = Files.size(first) + Files.size(second);
        assertThat(store().present()).containsExactly(new ModelStore.Present(GGUF + ":Q4_1", bytes, first.getParent()));
        assertThat(open(GGUF, "HF_HUB_OFFLINE", "1")).isEqualTo(first);
        assertThat(store().remove(ModelReference.parse(GGUF + ":Q4_1"))).isEqualTo(bytes);
        assertThat(store().present()).isEmpty();
    }

    @Test
    void onlyThePartsThatAreMissingAreFetched() throws IOException {
        addParts();
        Path first = pull(GGUF);
        Files.delete(first.toRealPath());
        assertThatThrownBy(() -> open(GGUF, "HF_HUB_OFFLINE", "1"))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("does not have all of " + GGUF);
        long before = hub.servedBytes();
        assertThat(open(GGUF)).isEqualTo(first);
        assertThat(hub.servedBytes() - before).isLessThan(2 * Files.size(first) + (2 << 20));
    }

    @Test
    void aGgufFileInPartsIsCheckedByTheMetadataOfAll() throws IOException {
        addParts();
        hub.addNoise(GGUF, PART_2, 3 << 20, 1);
        assertRefusedBeforeTheWeights(GGUF, GGUF + " cannot be served", PART_2 + " is not a GGUF file");
        assertThat(home.resolve("hf")).doesNotExist();
    }

    @Test
    void aShortNameStandsForAFileOfTheHubAndSaysItsLicence() throws IOException {
        String repository = "ggml-org/gemma-3-4b-it-GGUF";
        hub.addFile(repository, "gemma-3-4b-it-Q4_K_M.gguf", smollm2)
                .addNoise(repository, "gemma-3-4b-it-Q8_0.gguf", 3 << 20, 1)
                .addNoise(repository, "mmproj-model-f16.gguf", 3 << 20, 2);
        Path file = open("gemma3:4b");
        assertThat(Files.mismatch(file, smollm2)).isEqualTo(-1);
        assertThat(said.toString(StandardCharsets.UTF_8))
                .contains("gemma3:4b is Gemma 3 4B Instruct, text, Q4_K_M; licence: Gemma Terms of Use.")
                .contains(repository + ":Q4_K_M of the hub");
        said.reset();
        assertThat(open("gemma3:4b", "HF_HUB_OFFLINE", "1")).isEqualTo(file);
        assertThat(said.size()).as("a model in the cache is not told of again").isZero();
        assertThat(store().present())
                .containsExactly(new ModelStore.Present(repository + ":Q4_K_M", Files.size(smollm2), file.getParent()))
                .allSatisfy(model -> assertThat(
                                ShortName.find("gemma3:4b").orElseThrow().names(model.name()))
                        .isTrue());
        assertThat(store().remove(ModelReference.parse("gemma3:4b"))).isEqualTo(Files.size(smollm2));
        assertThat(store().present()).isEmpty();
    }

    @Test
    void aShortNameWhoseModelHasLeftTheHubIsNamed() {
        assertThatThrownBy(() -> open("qwen3:0.6b"))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("no model Qwen/Qwen3-0.6B-GGUF")
                .hasMessageContaining("the short name qwen3:0.6b stands for it")
                .hasMessageNotContaining("Did you mean");
    }

    @Test
    void anUnknownModelNamesTheNearestShortName() {
        assertThatThrownBy(() -> open("other-org/SmolLM2"))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("no model other-org/SmolLM2")
                .hasMessageContaining("no path other-org/SmolLM2")
                .hasMessageContaining("short name smollm2");
    }

    @Test
    void modelsInWheelsAreCheckedByTheirArchitecture() {
        WheelModel model = new WheelModel("some", "1", "a.gguf", "none-such", 1, 0, 9, "", part -> "a.gguf");
        assertThatThrownBy(() -> ModelCheck.wheels("short", model))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("short cannot be served yet, and nothing was downloaded")
                .hasMessageContaining("'none-such' is not supported; supported are gemma3, llama")
                .hasMessageContaining("tandem pull --no-check short");
        assertThatThrownBy(() -> store().remove(ModelReference.parse("smollm2")))
                .isInstanceOf(FetchException.class)
                .hasMessageContaining("not in the cache " + home.resolve("tandem"));
    }

    private Process tandem(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "@" + Path.of("../tools/java.options"),
                "-cp",
                System.getProperty("java.class.path"),
                "dev.tandem.app.Main"));
        command.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put("HF_ENDPOINT", hub.endpoint());
        builder.environment().put("HF_HOME", home.resolve("hf").toString());
        builder.environment().keySet().removeAll(List.of("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE"));
        return builder.start();
    }

    private static String errors(Process process) throws IOException {
        return new String(process.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
    }

    @Test
    void aSignalDuringADownloadSaysThatItGoesOn() throws Exception {
        hub.addFile(GGUF, "model-Q4_1.gguf", smollm2);
        hub.holdFrom(4); // the check reads the metadata, then two ranges come
        Process pull = tandem("pull", GGUF);
        hub.awaitHeld();
        pull.toHandle().destroy(); // as a signal; Process.destroy would close the streams
        assertThat(errors(pull)).contains("the download was interrupted; the same command goes on from there");
        hub.release();
        assertThat(Files.mismatch(pull(GGUF), smollm2)).isEqualTo(-1);
    }

    /** The wiring of {@code serve}: what its start reports is what answers of 503 tell. */
    @Test
    @Timeout(value = 1, unit = TimeUnit.MINUTES)
    void aServerWhoseModelIsDownloadedTellsHowFarItIs() throws Exception {
        hub.addFile(GGUF, "model-Q4_1.gguf", smollm2);
        hub.holdFrom(4); // the check reads the metadata with two requests, then the first of two ranges comes
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        Process serve =
                tandem("serve", GGUF, "--device", "cpu", "--host", "127.0.0.1", "--port", Integer.toString(port));
        try (HttpClient client = HttpClient.newHttpClient()) {
            hub.awaitHeld();
            HttpRequest health = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/health"))
                    .build();
            HttpResponse<String> answer;
            do {
                answer = client.send(health, HttpResponse.BodyHandlers.ofString());
            } while (!answer.body().matches("(?s).*downloading the model, [1-9][0-9] %.*"));
            assertThat(answer.statusCode()).isEqualTo(503);
            assertThat(answer.headers().firstValue("Retry-After")).isPresent();
        } finally {
            serve.destroyForcibly();
            hub.release();
        }
    }

    @Test
    @Tag("slow")
    void aModelOfTheHubAnswers() throws Exception {
        hub.addFile(GGUF, "model-Q4_1.gguf", smollm2);
        Process generate = tandem("generate", GGUF + ":Q4_1", "--device", "cpu", "--max-tokens", "8", "-p", "Hi");
        String answer = new String(generate.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(errors(generate)).contains(GGUF + ":Q4_1");
        assertThat(generate.waitFor()).isZero();
        assertThat(answer).isNotBlank();
    }
}
