package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.CudaExecutor;
import dev.tandem.engine.cost.Profile;
import dev.tandem.model.Checkpoint;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What doctor says of the gain, with a GPU that is only described. */
class GainReportTest {
    private static final CudaBackend.Gpu GPU = new CudaBackend.Gpu("a GPU", 132, 140_000_000_000L);

    @TempDir
    private Path folder;

    private Profiles profiles;
    private Checkpoint checkpoint;

    @BeforeEach
    void open() throws IOException {
        profiles = new Profiles(folder, new StartLog(System.err, false));
        Path model = Files.createDirectory(folder.resolve("Llama"));
        Files.writeString(model.resolve("config.json"), ModelConfigurations.json("Llama-3.1-8B"));
        checkpoint = Checkpoint.open(model, Checkpoint.LoadFormat.DUMMY, 0);
    }

    @AfterEach
    void close() {
        checkpoint.close();
    }

    private static ModelOptions options(String strategy) {
        ModelOptions options = new ModelOptions();
        options.gpu.device = "cuda";
        options.strategy.strategy = strategy;
        return options;
    }

    private void measure() throws IOException {
        Profile measured = Profile.parse(Files.readString(Path.of("../docs/results/profiles/h200.txt")), "h200");
        Files.writeString(
                profiles.path(CudaBackend.profileName(GPU, checkpoint, options("adaptive"))), measured.format());
    }

    @Test
    void withoutAProfileItSaysHowToGetOne() {
        assertThat(GainReport.line(options("adaptive"), checkpoint, GPU, profiles))
                .startsWith("unknown: the cache has no profile of this machine with Llama; measure it with"
                        + " tandem profile");
    }

    @Test
    void withAProfileItSaysTheGainAndTheMemoryThatItIsFor() throws IOException {
        measure();

        // 0.92 of 140 GB without 16.06 GB of weights and 1 GB
        assertThat(GainReport.line(options("adaptive"), checkpoint, GPU, profiles))
                .matches("Llama with 104\\.\\d+ GiB of GPU KV and .* of host KV: at best \\d\\.\\d\\d times gpu-only's"
                        + " \\d+ output tokens/s on 1000 prompt and 400 output tokens, 250 ms a token; limits: .*");
    }

    @Test
    void theOptionsOfServeCount() throws IOException {
        measure();
        ModelOptions options = options("adaptive");
        options.memory.gpuBlocks = Optional.of(1650);
        options.memory.hostKv = Optional.of(ByteSize.parse("36GiB"));

        assertThat(GainReport.line(options, checkpoint, GPU, profiles))
                .startsWith("Llama with 3.2 GiB of GPU KV and 36.0 GiB of host KV: at best 1.1");
    }

    @Test
    void bytesOfKvAreThoseOfAllLayers() throws IOException {
        measure();
        ModelOptions options = options("adaptive");
        options.memory.kvCacheMemory = Optional.of(ByteSize.parse("8GiB"));

        assertThat(GainReport.line(options, checkpoint, GPU, profiles)).startsWith("Llama with 8.0 GiB of GPU KV");
    }

    /** The line of a model of 32 layers, 27 of them with a window, and a GPU pool of 1,280 tokens. */
    private String lineWithWindow(int window) throws IOException {
        checkpoint.close();
        Path model = Files.createDirectory(folder.resolve("Gemma" + window));
        GemmaConfig.write(model, 32);
        Path config = model.resolve("config.json");
        Files.writeString(
                config, Files.readString(config).replace("\"sliding_window\": 512", "\"sliding_window\": " + window));
        checkpoint = Checkpoint.open(model, Checkpoint.LoadFormat.DUMMY, 0);
        measure();
        ModelOptions options = options("adaptive");
        options.memory.gpuBlocks = Optional.of(80);
        options.memory.hostKv = Optional.of(ByteSize.parse("1GiB"));
        return GainReport.line(options, checkpoint, GPU, profiles);
    }

    /**
     * 27 of 32 layers hold 512 tokens, so a request of 1,000 and 400 tokens holds 620 as a mean, not 1,200, and the GPU
     * holds 2.06 of them: 483 tokens/s are steps of 4.3 ms. The host's requests, with the profile's 33 GB/s, are those
     * of the gain. Without windows the request does not fit the pool, and a shorter one is taken.
     */
    @Test
    void layersWithAWindowHoldAndReadNoMoreThanThat() throws IOException {
        assertThat(lineWithWindow(512))
                .startsWith("Gemma512 with 40.0 MiB of GPU KV and 1.0 GiB of host KV: at best 3.86 times gpu-only's 483"
                        + " output tokens/s on 1000 prompt and 400 output tokens, 250 ms a token; limits: GPU time");
        assertThat(lineWithWindow(32_768)).contains("on 534 prompt and 214 output tokens");
    }

    @Test
    void whatTheCpuCannotAttendHasNoGain() {
        ModelOptions options = options("adaptive");
        options.scheduling.maxNumSeqs = Optional.of(CudaExecutor.maxHostTokens() + 1);

        assertThat(GainReport.line(options, checkpoint, GPU, profiles)).startsWith("none: --max-num-seqs");
    }

    /** gpu-only is held against the ideal of the strategies that it is compared with. */
    @Test
    void gpuOnlyHasTheProfileOfTheHostTier() {
        assertThat(CudaBackend.profileName(GPU, checkpoint, options("gpu-only")))
                .isEqualTo(CudaBackend.profileName(GPU, checkpoint, options("adaptive")))
                .contains(CudaBackend.defaultAttentionThreads() + " threads");
    }
}
