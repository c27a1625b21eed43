package dev.tandem.bench.hardware;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.FieldSource;

class HardwareTest {
    private static final ModelShape LLAMA_8B =
            new ModelShape(32, 4096, new ModelShape.Attention(32, 8, 128), 14_336, 128_256, 2, false);
    private static final ModelShape LLAMA_7B =
            new ModelShape(32, 4096, new ModelShape.Attention(32, 32, 128), 11_008, 32_000, 2, false);
    private static final ModelShape LLAMA_70B =
            new ModelShape(80, 8192, new ModelShape.Attention(64, 8, 128), 28_672, 128_256, 2, false);

    @ParameterizedTest
    @FieldSource("dev.tandem.bench.hardware.Hardware#NAMES")
    void everyMachineReadsAndMakesAProfile(String name) {
        Hardware hardware = Hardware.named(name);

        assertThat(hardware.name()).isEqualTo(name);
        Profile computed = new Roofline(hardware, LLAMA_8B).profile();
        assertThat(Profile.parse(computed.format(), name).layers()).isEqualTo(32);
    }

    /** SCHEDULING's figures of models: 6.98e9 weights in the layers, 131,072 bytes of KV per token. */
    @Test
    void shapesHaveTheModelsSizes() {
        assertThat(LLAMA_8B.layers() * LLAMA_8B.layerParameters()).isCloseTo(6.98e9, within(0.01e9));
        assertThat(LLAMA_8B.kvBytesPerToken()).isEqualTo(131_072);
        assertThat(LLAMA_7B.kvBytesPerToken()).isEqualTo(524_288);
        assertThat(LLAMA_70B.weightBytes()).isCloseTo(141.1e9, within(0.2e9));
    }

    @Test
    void aProfileIsWithinOnePerCentOfTheRoofline() {
        Roofline roofline = new Roofline(Hardware.named("a10g-g5.4xlarge"), LLAMA_8B);
        CostModel cost = new CostModel(roofline.profile());

        for (int tokens : new int[] {1, 7, 30, 100, 170, 300, 700, 3000, 20_000}) {
            assertThat(cost.linear(tokens) / roofline.linearPerLayer(tokens)).isCloseTo(1, within(0.01));
        }
        for (long tokens : new long[] {900, 26_400, 500_000}) {
            assertThat(cost.gpuAttention(tokens) / roofline.gpuAttentionPerLayer(tokens))
                    .isCloseTo(1, within(0.01));
            assertThat(cost.cpuAttention(100, tokens) / roofline.cpuAttentionPerLayer(tokens))
                    .isCloseTo(1, within(0.01));
        }
        assertThat(cost.extrapolated()).isZero();
    }

    /** The A10G reads 600 GB/s and computes 70 TFLOP/s: 30 tokens are bound by memory, 3,000 by arithmetic. */
    @Test
    void fewTokensAreBoundByMemoryAndManyByArithmetic() {
        Roofline roofline = new Roofline(Hardware.named("a10g-g5.4xlarge"), LLAMA_8B);
        double layerBytes = 2 * LLAMA_8B.layerParameters();

        assertThat(roofline.linearPerLayer(8)).isCloseTo(layerBytes / (600e9 * 0.9), within(1e-6));
        assertThat(roofline.linearPerLayer(3000) / (3000 * layerBytes / (70e12 * 0.85)))
                .isCloseTo(1, within(0.01));
    }

    @Test
    void twoGpusReadTwiceAsFastAndPayForAllReduces() {
        Hardware two = Hardware.named("2xh100-hgx");
        Hardware one =
                new Hardware("one", two.provenance(), two.gpu(), TensorParallel.NONE, two.host(), two.efficiency());

        double shared = new Roofline(two, LLAMA_70B).linearPerLayer(8);
        double alone = new Roofline(one, LLAMA_70B).linearPerLayer(8);

        assertThat(shared - alone / 2).isCloseTo(two.tensorParallel().secondsPerLayer(8, 8192), within(1e-9));
        assertThat(shared - alone / 2).isBetween(30e-6, 40e-6);
        assertThat(two.gpuMemoryBytes()).isEqualTo(2 * one.gpuMemoryBytes());
    }

    /** Host memory bounds a GQA model's attention on AMX, and the cores bound it on AVX2. */
    @Test
    void hostAttentionIsBoundByMemoryOrByCores() {
        Hardware amx = Hardware.named("h200");
        Hardware avx2 = Hardware.named("a10g-g5.16xlarge");

        assertThat(amx.hostAttentionBandwidth(LLAMA_8B)).isCloseTo(135e9, within(0.1e9));
        assertThat(avx2.hostAttentionBandwidth(LLAMA_8B)).isCloseTo(156.8e9, within(0.1e9));
        assertThat(avx2.host().computeBandwidth(4, 1)).isCloseTo(avx2.host().computeBandwidth(4, 2) / 2, within(1.0));
    }

    @Test
    void measuredHardwareNamesAProfileThatItHas() {
        Hardware hardware = Hardware.named("h200-16sm-26k");

        assertThat(hardware.describeProvenance()).isEqualTo("measured (h200-16sm-26k.txt)");
        assertThat(hardware.profile(LLAMA_8B).name()).contains("16 multiprocessors");
        assertThat(Hardware.named("t4-g4dn.4xlarge").describeProvenance())
                .isEqualTo("roofline(320 GB/s, 65.0 TFLOP/s, efficiency 0.90 and 0.37)");
    }

    @Test
    void aMeasuredProfileOfAnotherModelIsRefused() {
        assertThatThrownBy(() -> Hardware.named("h200").profile(LLAMA_7B))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("hardware h200 is of Llama-3.1-8B, 32 layers and 131072 KV bytes")
                .hasMessageContaining("this model has 32 and 524288");
    }

    @Test
    void errorsNameTheFileAndTheField(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("mine.json"), """
                {"name": "mine", "provenance": {"kind": "roofline"}, "efficiency": {"source": "guessed"},
                 "gpu": {"name": "X", "memory_gb": -1, "source": "a data sheet"}, "host": {}}""");

        assertThatThrownBy(() -> Hardware.read(file))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining(file.toString())
                .hasMessageContaining("memory_gb is -1");
        assertThatThrownBy(() -> Hardware.named("t5"))
                .hasMessageContaining("hardware t5 is not known")
                .hasMessageContaining("t4-g4dn.4xlarge");
    }

    @Test
    void aModelsConfigurationIsRead() {
        ModelShape read = ModelShape.read("""
                {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                 "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": false}""", "config.json");

        assertThat(read).isEqualTo(LLAMA_8B);
        assertThatThrownBy(() -> ModelShape.read("{\"hidden_size\": 4096}", "config.json"))
                .hasMessageContaining("config.json: num_attention_heads is");
    }
}
