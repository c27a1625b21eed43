package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.CpuExecutor;
import dev.tandem.cpu.CpuOptions;
import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Prompts that the GPU scores, compared with the FP32 model on the CPU, beside requests that are not scored. */
@Tag("gpu")
class PromptScoresTest {
    private static final long SEED = 17;
    private static final int REQUESTS = 30;
    /** Prompts are longer than the rows of logits that the GPU has room for. */
    private static final int MAX_PROMPT = 210;

    /** @param gpuBlocks so few in some that requests are preempted */
    record SetUp(String name, Strategy strategy, Budget budget, int gpuBlocks) {
        @Override
        public String toString() {
            return name;
        }

        boolean offloads() {
            return strategy != Strategy.GPU_ONLY;
        }
    }

    static Stream<Arguments> familiesAndSetUps() {
        List<SetUp> setUps = List.of(
                new SetUp("whole prompts", Strategy.GPU_ONLY, new Budget(256, 64, 256), 400),
                new SetUp("chunks of 7", Strategy.GPU_ONLY, new Budget(120, 64, 7), 400),
                new SetUp("preempted", Strategy.GPU_ONLY, new Budget(100, 64, 50), 20),
                new SetUp("all on the host", Strategy.FASTDECODE_PLUS, new Budget(256, 64, 256), 40),
                new SetUp("two sub-batches", Strategy.NEO, new Budget(200, 64, 64), 40),
                new SetUp("tokens in flight", Strategy.ASYNC_OVERLAP, new Budget(200, 64, 64), 40));
        return Stream.of("llama31", "qwen3", "gemma3", "olmo3wide")
                .flatMap(family -> setUps.stream().map(setUp -> Arguments.of(family, setUp)));
    }

    private static List<int[]> prompts() {
        SplittableRandom random = new SplittableRandom(SEED);
        List<int[]> prompts = new ArrayList<>();
        for (int i = 0; i < REQUESTS; i++) {
            int length = i < 3 ? 1 + i : 1 + random.nextInt(MAX_PROMPT);
            prompts.add(random.ints(length, 3, 301).toArray());
        }
        return prompts;
    }

    /** Every third request is not scored, and goes on decoding beside the others. */
    private static boolean isScored(int request) {
        return request % 3 != 2;
    }

    private static List<PromptScorer> run(Executor executor, Budget budget, PolicyScheduler scheduler) {
        List<PromptScorer> scorers = new ArrayList<>();
        try (EngineHarness engine = new EngineHarness(executor, scheduler, budget)) {
            List<int[]> prompts = prompts();
            for (int i = 0; i < prompts.size(); i++) {
                int[] prompt = prompts.get(i);
                int alternatives = i % 4 == 0 ? SamplingParams.MAX_LOGPROBS : i % 4;
                scorers.add(new PromptScorer(prompt, alternatives));
                SamplingParams sampling = EngineHarness.greedy(isScored(i) ? 1 + i % 4 : 40);
                if (isScored(i)) {
                    engine.submit("r" + i, prompt, sampling, scorers.get(i));
                } else {
                    engine.submit("r" + i, prompt, sampling);
                }
                if (i % 5 == 0) {
                    engine.step(); // so that prompts begin beside decodes
                }
            }
            engine.run();
            for (int i = 0; i < REQUESTS; i++) {
                assertThat(engine.tokens("r" + i)).as("r%d", i).hasSize(isScored(i) ? 1 + i % 4 : 40);
            }
        }
        return scorers;
    }

    static List<PromptScorer> expected(String family) {
        Checkpoint checkpoint = Checkpoint.open(CudaModelTest.FAMILIES.resolve(family), LoadFormat.AUTO, 0);
        CpuOptions options =
                new CpuOptions(2, 1, false, DataType.FLOAT32, ActivationPrecision.EXACT, DataType.FLOAT32, 800, 0, 256);
        Budget budget = new Budget(256, 64, 256);
        var policy = Strategy.GPU_ONLY.policy(
                HybridModelTest.options(budget, TierRules.neutral()), TestProfile.withCpu(100));
        return run(new CpuExecutor(checkpoint, options), budget, PolicyScheduler.of(policy));
    }

    @ParameterizedTest
    @MethodSource("familiesAndSetUps")
    void scoresAreThoseOfTheModel(String family, SetUp setUp) {
        CudaExecutor executor = CudaModelTest.executor(
                family, DataType.FLOAT16, setUp.gpuBlocks(), true, setUp.offloads() ? 3 : 0, 10_000);
        executor.faults().poisonPools();
        var policy = setUp.strategy()
                .policy(HybridModelTest.options(setUp.budget(), TierRules.neutral()), TestProfile.withCpu(100));
        List<PromptScorer> actual = run(executor, setUp.budget(), PolicyScheduler.of(policy));
        List<PromptScorer> expected = expected(family);
        double sum = 0;
        int count = 0;
        for (int i = 0; i < REQUESTS; i++) {
            for (int position = 1; isScored(i) && position < prompts().get(i).length; position++) {
                TokenLogprobs mine = actual.get(i).score(position).orElseThrow();
                TokenLogprobs reference = expected.get(i).score(position).orElseThrow();
                double error = Math.abs(mine.logprob() - reference.logprob());
                assertThat(error)
                        .as("%s, r%d, position %d", family, i, position)
                        .isLessThan(0.2);
                sum += error;
                count++;
                check(mine, actual.get(i), position);
            }
        }
        assertThat(sum / count).as("mean error of %s, %s", family, setUp).isLessThan(0.02);
    }

    /** The alternatives are in order, and agree with the token's own log-probability and rank. */
    private static void check(TokenLogprobs score, PromptScorer scorer, int position) {
        assertThat(score.topTokens()).hasSize(scorer.alternatives());
        int rank = scorer.rank(position);
        for (int i = 0; i < score.topTokens().length; i++) {
            assertThat(score.topLogprobs()[i]).isLessThanOrEqualTo(i == 0 ? 0 : score.topLogprobs()[i - 1]);
            if (score.topTokens()[i] == scorer.token(position)) {
                assertThat(score.topLogprobs()[i]).isEqualTo(score.logprob());
                assertThat(rank).as("rank of alternative %d", i).isBetween(1, i + 1);
            } else if (i + 1 < rank) {
                assertThat(score.topLogprobs()[i]).isGreaterThanOrEqualTo(score.logprob());
            }
        }
    }
}
