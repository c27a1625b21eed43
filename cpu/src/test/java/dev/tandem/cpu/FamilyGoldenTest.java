package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.TestModels.Golden;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.DataType;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Logits and greedy tokens of every family against Hugging Face transformers. */
class FamilyGoldenTest {
    static Stream<Arguments> familiesAndTypes() {
        return TestModels.FAMILIES.stream()
                .flatMap(family -> Stream.of(DataType.values()).map(type -> Arguments.of(family, type)));
    }

    static Stream<String> families() {
        return TestModels.FAMILIES.stream();
    }

    static Stream<String> ggufFamilies() {
        return TestModels.GGUF.stream();
    }

    @ParameterizedTest
    @MethodSource("familiesAndTypes")
    void logitsMatchTransformers(String family, DataType type) {
        // fp16 keeps three more bits than bf16
        double bound = switch (type) {
            case FLOAT32 -> 1e-4;
            case FLOAT16 -> 5e-3;
            case BFLOAT16 -> 2e-2;
        };
        assertLogits(family, TestModels.open(family), type, bound);
    }

    @ParameterizedTest
    @MethodSource("ggufFamilies")
    void logitsOfGgufMatchTransformers(String family) {
        assertLogits(family, TestModels.openGguf(family), DataType.FLOAT32, 1e-4);
    }

    /** The same model in two containers is the same specification; GGUF stores numbers as fp32. */
    @ParameterizedTest
    @MethodSource("ggufFamilies")
    void ggufAndHuggingFaceGiveOneSpecification(String family) {
        try (Checkpoint directory = TestModels.open(family);
                Checkpoint gguf = TestModels.openGguf(family)) {
            assertThat(gguf.spec())
                    .usingRecursiveComparison()
                    .ignoringFields("family")
                    .withComparatorForType(
                            (a, b) -> Math.abs(a - b) <= 1e-6 * Math.abs(b) ? 0 : Double.compare(a, b), Double.class)
                    .isEqualTo(directory.spec());
        }
    }

    private static void assertLogits(String family, Checkpoint checkpoint, DataType type, double bound) {
        Golden golden = Golden.of(TestModels.directory(family));
        try (ForwardPass model = new ForwardPass(checkpoint, type, 8, 2)) {
            int[] blocks = {5, 0, 3};
            Chunk prompt = new Chunk(1, 0, golden.prompt(), blocks, AttentionSite.GPU_FROM_GPU, Optional.empty());
            float[] logits = model.logits(new SubBatch(List.of(prompt)));
            double error = TestModels.relativeError(logits, 0, golden.logits(), 0, logits.length);
            assertThat(error)
                    .as("%s %s: relative L2 of the logits of all positions", family, type)
                    .isLessThan(bound);
        }
    }

    static Stream<Arguments> familiesAndPlacements() {
        return TestModels.FAMILIES.stream()
                .flatMap(family -> Placements.NAMES.stream().map(placement -> Arguments.of(family, placement)));
    }

    /** Three equal requests, so that they can be in different tiers and sub-batches. */
    @ParameterizedTest
    @MethodSource("familiesAndPlacements")
    void greedyTokensMatchTransformersInFp32(String family, String placement) {
        Golden golden = Golden.of(TestModels.directory(family));
        Budget budget = new Budget(64, 4, 16);
        try (EngineHarness engine = new EngineHarness(
                TestModels.executor(family, DataType.FLOAT32, 16, 24, 2),
                PolicyScheduler.of(Placements.policy(placement, budget)),
                budget)) {
            List<String> requests = List.of("a", "b", "c");
            requests.forEach(id -> engine.submit(id, golden.prompt(), EngineHarness.greedy(golden.greedy().length)));
            engine.run();
            List<Integer> expected = Arrays.stream(golden.greedy()).boxed().toList();
            requests.forEach(id -> assertThat(engine.tokens(id)).as(id).isEqualTo(expected));
        }
    }
}
