package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.step.StepTimes;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class RecorderTest {
    private static final Request REQUEST = request("r");

    private final Recorder recorder = new Recorder();

    private static Request request(String id) {
        return new Request(id, new int[10], SamplingParams.builder().build(), 0, TextDecoder.none(), event -> {});
    }

    /** A request of ten prompt tokens, of which eight were computed twice, and three output tokens. */
    private void serve() {
        recorder.step(new StepRecord(
                0, new StepRecord.Tokens(8, 0, 0), 0, 0, 0, 0, StepRecord.Sampling.AT_ONCE, StepTimes.NONE));
        recorder.step(new StepRecord(
                1, new StepRecord.Tokens(10, 0, 0), 0, 0, 0, 0, StepRecord.Sampling.AT_ONCE, StepTimes.NONE));
        recorder.firstToken(REQUEST, 5_000_000);
        for (int i = 0; i < 2; i++) {
            recorder.step(new StepRecord(
                    2 + i,
                    new StepRecord.Tokens(0, 1, i),
                    0,
                    0,
                    0,
                    0,
                    StepRecord.Sampling.AT_ONCE,
                    StepTimes.ofHost(0, 0, 100_000_000)));
            recorder.nextToken(REQUEST, 2_000_000 + i * 2_000_000L);
        }
        recorder.finished(
                REQUEST,
                FinishReason.LENGTH,
                new Usage(10, 3, 1_000_000, 5_000_000, 11_000_000, 1, 1, 0, 0, List.of()));
    }

    @Test
    void tokensAndLatenciesAreCountedFromTheOpeningOn() {
        serve();
        recorder.open();
        serve();
        Recorder.Counts counts = recorder.snapshot();
        assertThat(counts.finished()).isEqualTo(1);
        assertThat(counts.promptTokens()).isEqualTo(10);
        assertThat(counts.outputTokens()).isEqualTo(3);
        assertThat(counts.prefillTokens()).isEqualTo(18);
        assertThat(counts.decodeTokens()).isEqualTo(2);
        assertThat(counts.hostTokens()).isEqualTo(1);
        assertThat(counts.hostWaitNanos()).isEqualTo(200_000_000);
        assertThat(counts.firstToken()).containsExactly(5);
        assertThat(counts.interToken()).containsExactly(2, 4);
        assertThat(counts.perToken()).containsExactly(3);
        assertThat(counts.endToEnd()).containsExactly(11);
        assertThat(recorder.steps()).isEqualTo(4);
    }

    @Test
    void aSnapshotDoesNotChangeAndManySamplesAreKept() {
        for (int i = 0; i < 3_000; i++) {
            recorder.firstToken(REQUEST, i * 1_000_000L);
        }
        Recorder.Counts before = recorder.snapshot();
        serve();
        assertThat(before.firstToken()).hasSize(3_000).startsWith(0, 1, 2).endsWith(2_998, 2_999);
        assertThat(before.outputTokens()).isEqualTo(3_000);
    }

    /** 63 tokens before the opening do not count, nor do the first of a request and requests of less than 64. */
    @Test
    void requestsUnderWayHaveATimePerTokenSinceTheOpening() {
        nextTokens(REQUEST, 63, 9_000_000);
        recorder.open();
        recorder.firstToken(REQUEST, 8_000_000);
        nextTokens(REQUEST, 63, 2_000_000);
        assertThat(recorder.snapshot().perTokenSinceOpening()).isEmpty();
        nextTokens(REQUEST, 1, 66_000_000);
        nextTokens(request("short"), 63, 1_000_000);
        nextTokens(request("other"), 70, 5_000_000);
        assertThat(recorder.snapshot().perTokenSinceOpening()).containsExactlyInAnyOrder(3, 5);
        assertThat(recorder.snapshot().perToken()).as("none has finished").isEmpty();
    }

    private void nextTokens(Request request, int tokens, long nanos) {
        for (int i = 0; i < tokens; i++) {
            recorder.nextToken(request, nanos);
        }
    }

    @Test
    void aRequestOfOneTokenHasNoTimePerToken() {
        recorder.finished(REQUEST, FinishReason.STOP, new Usage(10, 1, 0, 5_000_000, 5_000_000, 0, 0, 0, 0, List.of()));
        assertThat(recorder.snapshot().perToken()).isEmpty();
    }

    @Test
    void totalsCountEachPromptOnce() {
        serve();
        Map<String, Object> result = ThroughputRun.describe(recorder.snapshot(), 2);
        assertThat(result)
                .containsEntry("total_input_tokens", 10L)
                .containsEntry("total_output_tokens", 3L)
                .containsEntry("total_tokens_per_second", 6.5)
                .containsEntry("computed_prefill_tokens", 18L)
                .containsEntry("output_tokens_per_second", 1.5)
                .containsEntry("requests_per_second", 0.5)
                .containsEntry("host_token_fraction", 0.5)
                .containsEntry("host_wait_fraction", 0.1);
    }
}
