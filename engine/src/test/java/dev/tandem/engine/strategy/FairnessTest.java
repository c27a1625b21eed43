package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.CheapRows;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Requests keep coming, more than there is KV for; none of them waits for ever. */
class FairnessTest {
    private static final Budget BUDGET = new Budget(64, 24, 64);
    private static final int REQUESTS = 400;
    /** Requests that wait or run at a time. */
    private static final int LIVE = 30;

    private static final int CONTEXT = 60;
    /**
     * Max number of later requests that come before a request has ended, LIVE of them at the same time with it; 68 is
     * the max of all strategies.
     */
    private static final int MAX_LATER = 80;
    /** Max steps between two tokens of a sequence; observed: 73 with a preemption by recomputation, 22 without. */
    private static final int MAX_GAP = 100;

    /** Seeds of pools, budgets and requests; without the check of the host's room, seed 3 makes no progress. */
    private static final int SEEDS = 100;
    /** Max steps without a token for any sequence; 145 is the max of 4000 seeds. */
    private static final int MAX_STANDSTILL = 300;

    private final ContentExecutor executor = new ContentExecutor(3, 40, 60, 64, CONTEXT, Readiness.random(7));

    @ParameterizedTest
    @EnumSource(Strategy.class)
    void everyRequestEndsWhileOthersKeepComing(Strategy strategy) {
        TierRules rules = new TierRules(LatencyTargets.NONE, 8, 0, 4);
        var options = Strategy.Options.builder(BUDGET)
                .preemption(Preemption.RECOMPUTE)
                .rules(rules)
                .queueBypasses(8)
                .piggybacking(CheapRows.upTo(16))
                .build();
        PolicyScheduler scheduler = PolicyScheduler.of(strategy.policy(options, TestProfile.withCpu(10)));
        SplittableRandom random = new SplittableRandom(11);
        try (EngineHarness engine = new EngineHarness(executor, scheduler, BUDGET)) {
            int submitted = 0;
            int[] tokens = new int[REQUESTS];
            int[] since = new int[REQUESTS];
            for (int step = 0; submitted < REQUESTS; step++) {
                int from = submitted;
                long live = IntStream.range(0, from)
                        .filter(i -> engine.answers.get("r" + i).reason == null)
                        .count();
                for (long count = live; count < LIVE && submitted < REQUESTS; count++) {
                    int prompt = random.nextInt(8) == 0 ? 40 : 1 + random.nextInt(10);
                    int output = 1 + random.nextInt(CONTEXT - prompt);
                    engine.submit("r" + submitted++, new int[prompt], EngineHarness.greedy(output));
                }
                engine.step();
                for (int i = 0; i < submitted; i++) {
                    EngineHarness.Answer answer = engine.answers.get("r" + i);
                    int got = answer.tokens.size();
                    if (answer.reason != null || got == 0 || got != tokens[i]) {
                        since[i] = step;
                    }
                    tokens[i] = got;
                    assertThat(step - since[i])
                            .as("steps without a token for r%d", i)
                            .isLessThan(MAX_GAP);
                    assertThat(answer.reason != null || submitted - i < MAX_LATER)
                            .as("r%d has %d tokens after %d later requests have come", i, got, submitted - i)
                            .isTrue();
                }
            }
            engine.run();
            engine.answers.forEach(
                    (id, answer) -> assertThat(answer.reason).as(id).isNotNull());
        }
    }

    /**
     * Prompts whose last chunk ends in GPU blocks move to the host. If they started without room there, they would
     * evict each other and be computed again without end, and the batch would have no row left for decodes.
     */
    @ParameterizedTest
    @EnumSource(Strategy.class)
    void tokensKeepComingWithChunkedPromptsAndASmallHost(Strategy strategy) {
        for (int seed = 0; seed < SEEDS; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            int blocks = CONTEXT / 4 + 1;
            Budget budget = new Budget(12 + random.nextInt(12), 1 + random.nextInt(12), 1 + random.nextInt(20));
            ContentExecutor small = new ContentExecutor(
                    2,
                    blocks + random.nextInt(30),
                    blocks + random.nextInt(30),
                    budget.maxBatchTokens(),
                    CONTEXT,
                    Readiness.random(seed));
            Strategy.Options options = Strategy.Options.builder(budget)
                    .deviations(Deviations.of(Fidelity.values()[random.nextInt(3)]))
                    .build();
            Policy policy = strategy.policy(options, TestProfile.withCpu(Math.pow(10, random.nextInt(-1, 3))));
            try (EngineHarness engine = new EngineHarness(small, PolicyScheduler.of(policy), budget)) {
                for (int i = 0; i < 20; i++) {
                    int prompt = 1 + random.nextInt(CONTEXT - 1);
                    int output = 1 + random.nextInt(CONTEXT - prompt);
                    engine.submit("r" + i, new int[prompt], EngineHarness.greedy(output));
                }
                int got = 0;
                int since = 0;
                for (int step = 0; !engine.loop.isIdle(); step++) {
                    engine.step();
                    int tokens = engine.answers.values().stream()
                            .mapToInt(answer -> answer.tokens.size())
                            .sum();
                    since = tokens > got ? step : since;
                    got = tokens;
                    assertThat(step - since)
                            .as("seed %d: steps without any token", seed)
                            .isLessThan(MAX_STANDSTILL);
                }
            }
        }
    }
}
