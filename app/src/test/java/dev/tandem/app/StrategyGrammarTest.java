package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.CpuExecutor;
import dev.tandem.cpu.CpuOptions;
import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.Shuffling;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.grammar.GrammarSource;
import dev.tandem.grammar.LlguidanceCompiler;
import dev.tandem.grammar.Vocabularies;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import tools.jackson.databind.ObjectMapper;

/**
 * A model of random weights under grammars gives valid outputs, and each request the tokens that it gets alone and one
 * by one: under every strategy and random plans, with small pools, aborts, swaps and recomputation. Half of the
 * schedules are on an executor with async scheduling.
 */
class StrategyGrammarTest {
    private static final int SCHEDULES = 6;
    private static final int REQUESTS = 12;
    private static final int MAX_OUTPUT = 60;
    private static final ObjectMapper JSON = new ObjectMapper();
    /** One is longer than three blocks. */
    private static final List<String> TURNS = List.of("left", "right", "straight on until the road ends at the river");

    private static final List<GrammarSource> SOURCES = List.of(
            GrammarSource.jsonSchema(
                    JSON.readTree(
                            "{\"type\": \"object\", \"properties\": {\"the first number\": {\"type\": \"integer\"}, "
                                    + "\"b\": {\"enum\": [\"x\", \"y\"]}}, "
                                    + "\"required\": [\"the first number\", \"b\"], "
                                    + "\"additionalProperties\": false}"),
                    GrammarSource.Whitespace.NONE),
            GrammarSource.regex("[a-f]{3,9}(-[0-9]+)?"),
            GrammarSource.choice(TURNS));

    private static LlguidanceCompiler compiler;
    private static final List<GrammarCompiler.Compiled> GRAMMARS = new ArrayList<>();
    private static final List<int[]> PROMPTS = new ArrayList<>();
    private static final List<List<Integer>> BASELINE = new ArrayList<>();
    private static int schedules;
    private static int sampledLater;
    private static int skippedRows;

    private static CpuExecutor model(int gpuBlocks, int hostBlocks, Readiness readiness) {
        Path folder = Path.of("../cpu/src/test/resources/families/deep");
        return new CpuExecutor(
                Checkpoint.open(folder, LoadFormat.DUMMY, 9),
                new CpuOptions(
                        2,
                        1,
                        false,
                        DataType.BFLOAT16,
                        ActivationPrecision.EXACT,
                        DataType.BFLOAT16,
                        gpuBlocks,
                        hostBlocks,
                        256),
                readiness);
    }

    /** Every fourth request has no grammar. */
    private static SamplingParams sampling(int request) {
        return SamplingParams.builder()
                .presencePenalty(request % 2 * 0.5)
                .temperature(1 + request % 3 * 0.5)
                .seed(request)
                .maxTokens(MAX_OUTPUT)
                .stopTokenIds(Set.of(Vocabularies.END, Vocabularies.OTHER_END))
                .grammar(request % 4 == 3 ? Optional.empty() : Optional.of(GRAMMARS.get(request % 4)))
                .build();
    }

    @BeforeAll
    static void answerEachRequestAlone() {
        compiler = Vocabularies.compiler();
        SOURCES.forEach(source -> GRAMMARS.add(compiler.compile(source)));
        SplittableRandom random = new SplittableRandom(3);
        try (EngineHarness engine =
                EngineHarness.gpuOnly(model(16, 0, Readiness.allEarly()), new Budget(64, 1, 64), Preemption.SWAP)) {
            for (int i = 0; i < REQUESTS; i++) {
                PROMPTS.add(random.ints(1 + random.nextInt(50), 3, 256).toArray());
                // with log-probabilities no token is taken without the model
                engine.submit("r" + i, PROMPTS.get(i), sampling(i).withLogprobs(0));
                engine.run();
                assertThat(engine.answers.get("r" + i).logprobs).hasSameSizeAs(engine.tokens("r" + i));
                BASELINE.add(engine.tokens("r" + i));
                check(i, engine.tokens("r" + i));
            }
        }
    }

    @AfterAll
    static void close() {
        GRAMMARS.forEach(GrammarCompiler.Compiled::close);
        compiler.close();
        GRAMMARS.clear();
        PROMPTS.clear();
        BASELINE.clear();
    }

    /** All schedules together must sample later than they compute, or they test less than they claim. */
    @AfterAll
    static void stepsWereSampledLater() {
        if (schedules == cases().count()) {
            assertThat(sampledLater).as("steps sampled later").isPositive();
            assertThat(skippedRows).as("rows of forced tokens").isPositive();
        }
    }

    private static void check(int request, List<Integer> tokens) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        tokens.stream()
                .filter(token -> token != Vocabularies.END && token != Vocabularies.OTHER_END)
                .forEach(token -> bytes.writeBytes(Vocabularies.BYTES.bytes(token)));
        String text = bytes.toString(StandardCharsets.UTF_8);
        int last = tokens.getLast();
        if (last != Vocabularies.END && last != Vocabularies.OTHER_END) {
            assertThat(tokens).as("the output is cut").hasSize(MAX_OUTPUT);
            return;
        }
        switch (request % 4) {
            case 0 ->
                assertThat(JSON.readTree(text).path("b").asString()).as(text).isIn("x", "y");
            case 1 -> assertThat(text).matches("[a-f]{3,9}(-[0-9]+)?");
            case 2 -> assertThat(text).isIn(TURNS);
            default -> {}
        }
    }

    static Stream<Arguments> cases() {
        return Stream.concat(Stream.of(Strategy.values()).map(Strategy::flag), Stream.of("random plans"))
                .flatMap(name -> LongStream.range(0, SCHEDULES).mapToObj(seed -> Arguments.of(name, seed)));
    }

    @ParameterizedTest(name = "{0}, seed {1}")
    @MethodSource("cases")
    void outputsFollowTheirGrammars(String name, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Budget budget = new Budget(8 + random.nextInt(120), 2 + random.nextInt(8), 1 + random.nextInt(64));
        Policy policy = name.equals("random plans")
                ? new Shuffling(budget, Shuffling.Takes.EVERYTHING, seed)
                : Strategy.of(name)
                        .policy(
                                Strategy.Options.of(budget),
                                TestProfile.withCpu(Math.pow(10, 2 * random.nextInt(3) - 1)));
        CpuExecutor model = model(8 + random.nextInt(8), 8 + random.nextInt(20), Readiness.random(seed));
        LateExecutor late = new LateExecutor(model);
        try (EngineHarness engine =
                new EngineHarness(seed % 2 == 0 ? late : model, PolicyScheduler.of(policy), budget)) {
            Map<String, Integer> requests = new HashMap<>();
            for (int i = 0; i < REQUESTS; i++) {
                int request = random.nextInt(REQUESTS);
                requests.put("r" + i, request);
                engine.submit("r" + i, PROMPTS.get(request), sampling(request));
                for (int steps = random.nextInt(6); steps > 0; steps--) {
                    engine.step();
                }
                if (random.nextInt(8) == 0) {
                    engine.cancel("r" + random.nextInt(i + 1));
                }
            }
            engine.run();
            schedules++;
            sampledLater += late.sampledLater;
            skippedRows += late.skippedRows;
            requests.forEach((id, request) -> {
                List<Integer> tokens = engine.tokens(id);
                assertThat(tokens)
                        .as("%s, the request %d", id, request)
                        .isEqualTo(BASELINE.get(request).subList(0, tokens.size()));
            });
        }
    }
}
