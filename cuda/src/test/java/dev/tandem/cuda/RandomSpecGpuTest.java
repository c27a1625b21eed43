package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.reference.RandomSpec;
import dev.tandem.cpu.reference.ReferenceDecoder;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.observe.Timeline;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.fetch.Progress;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.TokenizerSource;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.GenerationDefaults;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.weights.DummyWeights;
import dev.tandem.model.weights.Tensor;
import dev.tandem.model.weights.Weights;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The CUDA executor computes any specification that its kernels have as {@link ReferenceDecoder} does, whatever tier
 * holds the KV. {@code -Dtandem.random.specs=200} tries more of them; each has kernels of its own to compile.
 */
@Tag("gpu")
class RandomSpecGpuTest {
    private static final int SPECS = Integer.getInteger("tandem.random.specs", 24);
    private static final int REQUESTS = 5;
    private static final int OUTPUT = 6;
    private static final Budget BUDGET = new Budget(64, 16, 24);

    static IntStream seeds() {
        return IntStream.range(0, SPECS);
    }

    /** The next specification that the kernels have, with enough tokens for the alternatives that are compared. */
    private static ModelSpec draw(SplittableRandom random) {
        ModelSpec spec = RandomSpec.draw(random);
        return ModelShape.lacking(spec).isEmpty() && spec.vocabulary() > SamplingParams.MAX_LOGPROBS
                ? spec
                : draw(random);
    }

    /** Random weights that are read from the host: the GPU would generate others of {@link DummyWeights} itself. */
    private record UploadedWeights(Weights random) implements Weights {
        @Override
        public boolean contains(String name) {
            return random.contains(name);
        }

        @Override
        public Tensor tensor(String name) {
            return random.tensor(name);
        }

        @Override
        public String origin() {
            return random.origin();
        }

        @Override
        public void close() {
            random.close();
        }
    }

    private static Checkpoint checkpoint(ModelSpec spec, int seed) {
        return new Checkpoint(
                "random",
                spec,
                new UploadedWeights(new DummyWeights(spec, seed)),
                GenerationDefaults.NONE,
                new TokenizerSource.Directory(Path.of("none")));
    }

    @ParameterizedTest
    @MethodSource("seeds")
    void executorMatchesReference(int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        ModelSpec spec = draw(random);
        List<int[]> prompts = new ArrayList<>();
        for (int i = 0; i < REQUESTS; i++) {
            prompts.add(random.ints(random.nextInt(1, 60), 0, spec.vocabulary()).toArray());
        }
        check(seed, spec, prompts, Strategy.GPU_ONLY, 64);
        if (HostFormat.obstacle(spec.config()).isEmpty()) {
            check(seed, spec, prompts, Strategy.FASTDECODE_PLUS, 64);
            check(seed, spec, prompts, Strategy.ASYNC_OVERLAP, 16);
        }
    }

    /** @param gpuBlocks so few for some strategies that sequences move between the tiers */
    private static void check(int seed, ModelSpec spec, List<int[]> prompts, Strategy strategy, int gpuBlocks) {
        int threads = strategy == Strategy.GPU_ONLY ? 0 : 3;
        CudaExecutor executor = new CudaExecutor(
                checkpoint(spec, seed),
                CudaModelTest.options(DataType.FLOAT16, gpuBlocks, true, threads, 10_000),
                GpuRig.libraries(),
                GpuRig.compiler(),
                Clock.system(),
                Timeline.OFF,
                Progress.SILENT,
                UnaryOperator.identity());
        executor.faults().poisonPools();
        var policy = strategy.policy(HybridModelTest.options(BUDGET, TierRules.neutral()), TestProfile.withCpu(100));
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0)
                .maxTokens(OUTPUT)
                .ignoreEos(true)
                .logprobs(SamplingParams.MAX_LOGPROBS)
                .build();
        try (EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(policy), BUDGET);
                Checkpoint reference = checkpoint(spec, seed)) {
            for (int i = 0; i < REQUESTS; i++) {
                engine.submit("r" + i, prompts.get(i), sampling);
            }
            engine.run();
            for (int i = 0; i < REQUESTS; i++) {
                List<Integer> output = engine.tokens("r" + i);
                int[] tokens = IntStream.concat(
                                IntStream.of(prompts.get(i)),
                                output.stream().mapToInt(Integer::intValue).limit(OUTPUT - 1))
                        .toArray();
                double[][] expected = new ReferenceDecoder(spec, reference.weights()).logits(tokens);
                for (int token = 0; token < OUTPUT; token++) {
                    TokenLogprobs actual = engine.answers.get("r" + i).logprobs.get(token);
                    assertThat(error(actual, expected[prompts.get(i).length - 1 + token]))
                            .as("seed %d, %s, request %d, token %d, %s", seed, strategy, i, token, spec)
                            .isLessThan(2e-2);
                }
            }
        }
    }

    /** Relative L2 of the log-probabilities of the most probable tokens, each less their mean. */
    private static double error(TokenLogprobs actual, double[] logits) {
        int count = actual.topTokens().length;
        double mean = 0;
        double expectedMean = 0;
        for (int i = 0; i < count; i++) {
            mean += actual.topLogprobs()[i] / count;
            expectedMean += logits[actual.topTokens()[i]] / count;
        }
        double difference = 0;
        double norm = 0;
        for (int i = 0; i < count; i++) {
            double value = logits[actual.topTokens()[i]] - expectedMean;
            difference += Math.pow(actual.topLogprobs()[i] - mean - value, 2);
            norm += value * value;
        }
        return Math.sqrt(difference / norm);
    }
}
