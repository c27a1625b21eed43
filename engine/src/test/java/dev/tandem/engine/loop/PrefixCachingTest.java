package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** When KV enters the prefix cache, and which requests hit it. Blocks have 4 tokens. */
class PrefixCachingTest {
    private static final int[] PROMPT = IntStream.range(0, 14).toArray();
    private static final Budget BUDGET = new Budget(40, 8, 40);

    private final ContentExecutor executor = new ContentExecutor(2, 40, 40, 40, 128, Readiness.allEarly());
    private final EngineHarness engine = new EngineHarness(
            executor, PolicyScheduler.of(new GpuOnly(BUDGET, Preemption.RECOMPUTE)), BUDGET, PrefixCacheOptions.on(1));
    private int submitted;

    private void submit(String id, int[] prompt, int output) {
        executor.prompt(submitted++, prompt, "");
        engine.submit(id, prompt, EngineHarness.greedy(output), PrefixCaching.SHARED);
    }

    private int cached(String id) {
        return engine.answers.get(id).usage.cachedTokens();
    }

    /** With async scheduling the request leaves before its step has a result. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aPromptThatYieldsOneTokenIsHit(boolean async) {
        executor.allowsAsyncScheduling = async;
        submit("first", PROMPT, 1);
        engine.run();
        submit("second", PROMPT, 1);
        engine.run();
        assertThat(cached("first")).isZero();
        assertThat(cached("second")).isEqualTo(12);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theNextTurnHitsTheAnswerToo(boolean async) {
        executor.allowsAsyncScheduling = async;
        submit("first", PROMPT, 10);
        engine.run();
        int[] turn = IntStream.concat(
                        IntStream.concat(
                                IntStream.of(PROMPT),
                                engine.tokens("first").stream().mapToInt(Integer::intValue)),
                        IntStream.range(0, 9))
                .toArray();
        submit("second", turn, 3);
        engine.run();
        assertThat(cached("second")).as("of 23 tokens whose KV was computed").isEqualTo(20);
    }

    /** Its step is submitted before the first one's result is known, so it cannot rely on that result. */
    @Test
    void requestsOfOneStepDoNotHitEachOther() {
        submit("first", PROMPT, 2);
        submit("second", PROMPT, 2);
        engine.run();
        assertThat(cached("second")).isZero();
        assertThat(engine.loop.stats().gpu().used()).isZero();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aFailedRequestIsNotHit(boolean async) {
        executor.allowsAsyncScheduling = async;
        engine.failuresExpected = true;
        executor.failing = key -> key == 0;
        submit("failed", PROMPT, async ? 1 : 5);
        engine.run();
        assertThat(engine.answers.get("failed").failure).isEqualTo("the logits are NaN");
        submit("second", PROMPT, 1);
        engine.run();
        assertThat(cached("second")).isZero();
    }

    /** The 10 blocks of the pool cannot hold both sequences, so the later one is preempted and hits its own KV. */
    @Test
    void aPreemptedRequestHitsWhatIsLeftOfIt() {
        ContentExecutor small = new ContentExecutor(2, 10, 0, 40, 40, Readiness.allEarly());
        EngineHarness tight = new EngineHarness(
                small,
                PolicyScheduler.of(new GpuOnly(BUDGET, Preemption.RECOMPUTE, 0, 0, false)),
                BUDGET,
                PrefixCacheOptions.on(1));
        int[] other = IntStream.range(100, 114).toArray();
        small.prompt(0, PROMPT, "");
        small.prompt(1, other, "");
        tight.submit("first", PROMPT, EngineHarness.greedy(14));
        tight.submit("second", other, EngineHarness.greedy(14));
        tight.run();
        assertThat(tight.loop.stats().preemptions()).isPositive();
        assertThat(tight.answers.get("second").usage.cachedTokens())
                .as("counted at the first start only")
                .isZero();
        assertThat(small.plans.stream()
                        .flatMap(plan -> plan.subBatches().stream())
                        .flatMap(batch -> batch.chunks().stream())
                        .filter(chunk -> chunk.sequence() == 1 && !chunk.decodes())
                        .mapToInt(chunk -> chunk.start()))
                .as("starts of the second prompt's computations")
                .anyMatch(start -> start > 0);
    }
}
