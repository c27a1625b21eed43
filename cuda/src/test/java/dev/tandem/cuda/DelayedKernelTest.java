package dev.tandem.cuda;

import dev.tandem.cuda.kernels.AttentionKernelTest;
import dev.tandem.cuda.kernels.GpuRig;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.strategy.Shuffling;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Kernels that sleep at random points where another thread block, another kernel or the CPU waits for them. These are
 * publishing partial results of attention, dependencies between kernels of a step, and transfers of host tokens.
 * Results must stay the same, and nothing may hang. {@code -Dtandem.delays.seeds=N} sets the number of seeds.
 */
@Tag("gpu")
@Timeout(300)
class DelayedKernelTest {
    private static IntStream seeds() {
        return IntStream.rangeClosed(1, Integer.getInteger("tandem.delays.seeds", 2));
    }

    private static KernelCompiler delayed(int seed) {
        return GpuRig.compiler().withDelays(seed);
    }

    static Stream<Arguments> shapes() {
        return AttentionKernelTest.shapes()
                .limit(3)
                .flatMap(shape -> seeds().mapToObj(seed -> Arguments.of(shape, seed)));
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void decodeAttentionMergesPartialResults(ModelShape shape, int seed) {
        AttentionKernelTest.decodeAttention(shape, delayed(seed));
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void prefillAttentionMergesPartialResults(ModelShape shape, int seed) {
        AttentionKernelTest.prefillAttention(shape, delayed(seed));
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void prefillAndDecodeAttentionOverlap(ModelShape shape, int seed) {
        AttentionKernelTest.prefillAndDecodeAttentionOverlap(shape, delayed(seed));
    }

    static Stream<Arguments> strategies() {
        return Stream.of(Strategy.SIMPLE_OFFLOAD, Strategy.ASYMMETRIC, Strategy.ASYNC_OVERLAP, Strategy.APEX)
                .flatMap(strategy -> seeds().mapToObj(seed -> Arguments.of(strategy, seed)));
    }

    /**
     * Same-layer tokens, two sub-batches, in-flight tokens with their transfer kernel, and steps that are planned ahead
     * of prefill offload, as without checksums.
     */
    @ParameterizedTest
    @MethodSource("strategies")
    void stepsWithHostTokens(Strategy strategy, int seed) throws IOException {
        Budget budget = new Budget(200, 100, 200);
        Policy policy = strategy.policy(HybridModelTest.options(budget, TierRules.neutral()), TestProfile.withCpu(100));
        CudaExecutor executor = CudaModelTest.executor(
                "llama31",
                CudaModelTest.options(DataType.FLOAT16, 60, true, 3, 10_000, false),
                delayed(seed),
                UnaryOperator.identity());
        HybridModelTest.greedyTokensMatch(strategy.flag() + ", delays of seed " + seed, policy, budget, executor);
    }

    /** Random steps, one in five of whose in-flight tokens finish within the step. */
    @ParameterizedTest
    @MethodSource("seeds")
    void stepsThatResumeTokens(int seed) throws IOException {
        Budget budget = new Budget(200, 100, 200);
        CudaExecutor executor = CudaModelTest.executor(
                "llama31",
                CudaModelTest.options(DataType.FLOAT16, 60, true, 3, 10_000),
                delayed(seed),
                UnaryOperator.identity());
        HybridModelTest.greedyTokensMatch(
                "random steps, delays of seed " + seed,
                new Shuffling(budget, Shuffling.Takes.WHAT_CUDA_DOES, seed),
                budget,
                executor);
    }
}
