package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.JfrRecording;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.observe.StepEvent;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import jdk.jfr.consumer.RecordedEvent;
import org.junit.jupiter.api.Test;

/** Steps and moves of KV in a recording of the JDK. */
class RecorderEventsTest {
    private static final int CONTEXT = 64;
    private static final int GPU_BLOCKS = 8;
    private static final double PREDICTED = 0.002;

    private final Budget budget = new Budget(32, 4, 32);

    /** Two requests that together outgrow the GPU pool. */
    private void preempt(Preemption preemption) {
        PolicyScheduler scheduler = new PolicyScheduler(
                new GpuOnly(budget, preemption),
                draft -> PREDICTED,
                (draft, result, predicted, seconds) -> {},
                new DecisionLog(1));
        try (ContentExecutor executor = new ContentExecutor(2, GPU_BLOCKS, 8, 32, CONTEXT, Readiness.allEarly());
                EngineHarness engine = new EngineHarness(executor, scheduler, budget)) {
            engine.submit("old", new int[] {1, 2, 3, 4}, EngineHarness.greedy(20));
            engine.submit("young", new int[] {5, 6, 7, 8}, EngineHarness.greedy(20));
            engine.run();
        }
    }

    private static List<String> moves(List<RecordedEvent> events, String request) {
        return events.stream()
                .filter(event -> event.getString("request").equals(request))
                .map(event -> event.getString("from") + " to " + event.getString("to"))
                .toList();
    }

    @Test
    void eachStepIsRecordedWithItsTokensAndTimes() throws IOException {
        List<RecordedEvent> steps = JfrRecording.events("dev.tandem.Step", () -> preempt(Preemption.SWAP));
        assertThat(steps).extracting(step -> step.getLong("step")).isSorted().doesNotHaveDuplicates();
        RecordedEvent first = steps.getFirst();
        assertThat(first.getString("strategy")).isEqualTo("gpu-only");
        assertThat(first.getInt("rows")).isEqualTo(8);
        assertThat(first.getInt("prefillTokens")).isEqualTo(8);
        RecordedEvent second = steps.get(1);
        assertThat(second.getInt("gpuTokens")).isEqualTo(2);
        assertThat(second.getInt("hostTokens")).isZero();
        assertThat(second.getDuration("predicted")).isEqualTo(Duration.ofMillis(2));
        assertThat(steps).extracting(step -> step.getInt("swaps")).contains(1);
        assertThat(steps).allSatisfy(step -> assertThat(step.getDuration()).isPositive());
    }

    @Test
    void timesAreThoseOfTheStepsRecord() throws IOException {
        StepTimes times = StepTimes.ofHost(3_000_000, 0, 1_000_000);
        StepRecord record = new StepRecord(
                7, new StepRecord.Tokens(5, 4, 3), 2, 0, 1_000_000, 9_000_000, StepRecord.Sampling.AT_ONCE, times);
        RecordedEvent step = JfrRecording.events(
                        "dev.tandem.Step", () -> new StepEvent().commit(record, new Decision()))
                .getFirst();
        assertThat(step.getDuration("planned")).isEqualTo(Duration.ofMillis(1));
        assertThat(step.getDuration("measured")).isEqualTo(Duration.ofMillis(9));
        assertThat(step.getDuration("cpuAttention")).isEqualTo(Duration.ofMillis(3));
        assertThat(step.getDuration("hostWait")).isEqualTo(Duration.ofMillis(1));
        assertThat(step.getInt("rows")).isEqualTo(9);
        assertThat(step.getInt("gpuTokens")).isEqualTo(1);
        assertThat(step.getInt("hostTokens")).isEqualTo(3);
    }

    @Test
    void tokensOfTheHostAreCountedApart() throws IOException {
        var policy = Strategy.ASYNC_OVERLAP.policy(Strategy.Options.of(budget), TestProfile.withCpu(100));
        List<RecordedEvent> steps = JfrRecording.events("dev.tandem.Step", () -> {
            try (ContentExecutor executor = new ContentExecutor(2, GPU_BLOCKS, 40, 32, CONTEXT, Readiness.allEarly());
                    EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(policy), budget)) {
                for (int i = 0; i < 6; i++) {
                    engine.submit("r" + i, new int[] {1, 2, 3, 4}, EngineHarness.greedy(20));
                }
                engine.run();
            }
        });
        assertThat(steps).extracting(step -> step.getInt("hostTokens")).anyMatch(tokens -> tokens > 0);
        assertThat(steps).extracting(step -> step.getString("strategy")).contains("async-overlap");
    }

    @Test
    void aSwapIsAMoveToTheHostAndOneBack() throws IOException {
        List<RecordedEvent> events = JfrRecording.events("dev.tandem.KvMove", () -> preempt(Preemption.SWAP));
        assertThat(moves(events, "old")).containsExactly("none to gpu");
        assertThat(moves(events, "young")).startsWith("none to gpu", "gpu to host", "host to gpu");
        RecordedEvent out = events.stream()
                .filter(event -> event.getString("to").equals("host"))
                .findFirst()
                .orElseThrow();
        assertThat(out.getInt("tokens")).isPositive();
        assertThat(out.getLong("step")).isPositive();
    }

    @Test
    void aDropLeavesNoTier() throws IOException {
        List<RecordedEvent> events = JfrRecording.events("dev.tandem.KvMove", () -> preempt(Preemption.RECOMPUTE));
        assertThat(moves(events, "young")).startsWith("none to gpu", "gpu to none", "none to gpu");
    }
}
