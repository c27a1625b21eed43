package dev.tandem.server.metrics;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.step.StepTimes;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class EngineHistoryTest {
    private static final long SECOND = 1_000_000_000;
    private static final Request REQUEST =
            new Request("a", new int[] {1}, SamplingParams.builder().build(), 0, TextDecoder.none(), event -> {});

    private final VirtualClock clock = new VirtualClock();
    private final EngineHistory history = new EngineHistory(clock, "gpu-only");

    private void step(long number, long started, long took) {
        StepTimes times = StepTimes.ofHost(took / 2, 0, took / 10);
        history.step(new StepRecord(
                number, new StepRecord.Tokens(10, 3, 1), 2, started, 5, took, StepRecord.Sampling.AT_ONCE, times));
    }

    @Test
    void aStepThatWasPlannedAheadBeginsAfterTheOneBefore() {
        step(0, 100, 1000);
        step(1, 200, 700);
        assertThat(history.view().steps())
                .containsExactly(
                        new EngineHistory.Step(0, 105, 1000, 5, 500, 100, 10, 3, 1, 2),
                        new EngineHistory.Step(1, 1105, 700, 5, 350, 70, 10, 3, 1, 2));
    }

    @Test
    void onlyTheLastStepsAreKept() {
        for (int i = 0; i < EngineHistory.STEPS + 7; i++) {
            step(i, i * 10L, 1);
        }
        assertThat(history.view().steps())
                .extracting(EngineHistory.Step::step)
                .isEqualTo(IntStream.range(7, EngineHistory.STEPS + 7)
                        .mapToObj(i -> (long) i)
                        .toList());
    }

    @Test
    void tokensAreCountedPerSecond() {
        step(0, 0, 100);
        history.firstToken(REQUEST, 40);
        step(1, 2 * SECOND, 100);
        history.nextToken(REQUEST, 50);
        history.nextToken(REQUEST, 60);
        clock.advance(4 * SECOND);
        EngineHistory.Rates rates = history.view().rates();
        assertThat(rates.output()).containsExactly(1, 0, 2, 0);
        assertThat(rates.host()).containsExactly(1, 0, 1, 0);
        assertThat(rates.prompt()).containsExactly(10, 0, 10, 0);
    }

    @Test
    void secondsThatAreOlderThanTheHistoryAreForgotten() {
        step(0, 0, 100);
        clock.advance((EngineHistory.SECONDS + 1) * SECOND);
        assertThat(history.view().rates().prompt())
                .hasSize(EngineHistory.SECONDS)
                .containsOnly(0);
        step(1, 1000 * SECOND, 100);
        clock.advance((1000 - EngineHistory.SECONDS) * SECOND);
        assertThat(history.view().rates().prompt()).hasSize(EngineHistory.SECONDS);
        assertThat(IntStream.of(history.view().rates().prompt()).sum()).isEqualTo(10);
    }

    @Test
    void percentilesAreOfTheLastLatencies() {
        assertThat(history.view().timePerToken()).isEqualTo(new EngineHistory.Latencies(0, 0, 0));
        for (int i = 1; i <= 100; i++) {
            history.nextToken(REQUEST, i);
        }
        assertThat(history.view().timePerToken()).isEqualTo(new EngineHistory.Latencies(100, 50, 99));
        for (int i = 0; i < EngineHistory.LATENCIES; i++) {
            history.nextToken(REQUEST, 7);
        }
        assertThat(history.view().timePerToken()).isEqualTo(new EngineHistory.Latencies(EngineHistory.LATENCIES, 7, 7));
    }

    @Test
    void withoutAGuardThereIsNoGain() {
        EngineHistory.GuardState guard = history.view().guard();
        assertThat(guard.present()).isFalse();
        assertThat(guard.ideal()).isEmpty();
        history.watchIdeal(() -> 1.25);
        assertThat(history.view().guard().ideal()).hasValue(0.25);
    }
}
