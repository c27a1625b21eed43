package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.bench.Workload.Lengths;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.TokenSink;
import dev.tandem.engine.request.Usage;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ClosedLoopTest {
    private static final Workload WORKLOAD = Workload.parse("synthetic:100/40", 1);

    private final List<Lengths> submitted = new ArrayList<>();
    private final List<TokenSink> sinks = new ArrayList<>();
    private boolean goesOn = true;

    private ClosedLoop loop(int count) {
        return loop(FirstRequests.allInProgress(count));
    }

    private ClosedLoop loop(FirstRequests first) {
        return new ClosedLoop(
                WORKLOAD,
                first,
                1,
                (lengths, sink) -> {
                    submitted.add(lengths);
                    sinks.add(sink);
                },
                message -> goesOn);
    }

    @Test
    void growsAsTheEngineStartsRequests() {
        loop(200).grow();
        assertThat(submitted).hasSize(ClosedLoop.WAITING);
        sinks.getFirst().on(token());
        sinks.getFirst().on(token());
        assertThat(submitted).hasSize(ClosedLoop.WAITING + 1);
        for (int i = 1; i < sinks.size(); i++) {
            sinks.get(i).on(token());
        }
        assertThat(submitted).as("no more than the loop's concurrency").hasSize(200);
    }

    @Test
    void requestsThatEndAreReplacedByWholeOnes() {
        loop(2).grow();
        assertThat(submitted).hasSize(2);
        sinks.get(0).on(token());
        sinks.get(0).on(finished());
        sinks.get(1).on(finished());
        assertThat(submitted.subList(2, 4)).containsExactly(WORKLOAD.request(0), WORKLOAD.request(1));
    }

    @Test
    void requestsBeyondThoseInProgressAreWhole() {
        loop(new FirstRequests(4, 2)).grow();
        sinks.getFirst().on(finished());
        assertThat(submitted.subList(0, 2)).isEqualTo(WORKLOAD.inProgress(2, 1));
        assertThat(submitted.subList(2, 5))
                .as("two more of the loop, then the one in place of the first")
                .containsExactly(WORKLOAD.request(0), WORKLOAD.request(1), WORKLOAD.request(2));
    }

    @Test
    void afterTheWarmUpTheLoopGrowsByWholeRequests() {
        ClosedLoop loop = loop(ClosedLoop.WAITING + 2);
        loop.grow();
        sinks.get(0).on(token());
        loop.warmedUp();
        sinks.get(1).on(token());
        assertThat(submitted.subList(0, ClosedLoop.WAITING + 1))
                .isEqualTo(WORKLOAD.inProgress(ClosedLoop.WAITING + 2, 1).subList(0, ClosedLoop.WAITING + 1));
        assertThat(submitted.getLast()).isEqualTo(WORKLOAD.request(0));
    }

    @Test
    void failuresEndTheLoopWhereTheMeasurementSaysSo() {
        loop(2).grow();
        sinks.get(0).on(failed());
        assertThat(submitted).hasSize(3);
        goesOn = false;
        sinks.get(1).on(failed());
        sinks.get(2).on(finished());
        assertThat(submitted).hasSize(3);
    }

    @Test
    void aStoppedLoopSubmitsNothing() {
        ClosedLoop loop = loop(2);
        loop.grow();
        loop.stop();
        sinks.get(0).on(finished());
        assertThat(submitted).hasSize(2);
    }

    private static TokenEvent token() {
        return new TokenEvent.Token(3, "", Optional.empty(), false);
    }

    private static TokenEvent finished() {
        return new TokenEvent.Finished(FinishReason.LENGTH, "", "", new Usage(3, 3, 0, 0, 0, 0, 1, 0, 0, List.of()));
    }

    private static TokenEvent failed() {
        return new TokenEvent.Failed("the device is gone");
    }
}
