package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.request.Usage;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Shadow verification, with the test in place of the engine. */
class ShadowVerificationTest {
    private static final Usage USAGE = new Usage(3, 3, 0, 0, 0, 0, 1, 0, 0, List.of());

    private final List<TokenEvent> seen = new ArrayList<>();
    private final List<Request> again = new ArrayList<>();
    private final List<Double> differences = new ArrayList<>();
    private final EngineListener listener = new EngineListener() {
        @Override
        public void comparedWithGpu(double difference) {
            differences.add(difference);
        }

        @Override
        public void comparisonDropped() {
            dropped++;
        }
    };
    private int dropped;

    private Request watched(double rate, int logprobs) {
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0.7)
                .maxTokens(3)
                .logprobs(logprobs)
                .build();
        Request request = new Request("r", new int[] {5, 6, 7}, sampling, 0, TextDecoder.none(), seen::add);
        return new ShadowVerification(rate, 1, again::add, listener)
                .watch(List.of(request))
                .getFirst();
    }

    private static TokenEvent.Token token(int id, double logprob, boolean fromHost) {
        return new TokenEvent.Token(
                id, "t" + id, Optional.of(new TokenLogprobs((float) logprob, new int[0], new float[0])), fromHost);
    }

    private void generate(Request request, boolean host) {
        request.sink().on(token(11, -0.5, false));
        request.sink().on(token(12, -1.5, host));
        request.sink().on(token(13, -2.5, false));
        request.sink().on(new TokenEvent.Finished(FinishReason.LENGTH, "", "", USAGE));
    }

    @Test
    void aHostTokenIsRecomputedFromTheTokensBeforeIt() {
        Request request = watched(1, -1);
        generate(request, true);
        assertThat(again).hasSize(1);
        Request own = again.getFirst();
        assertThat(own.prompt()).containsExactly(5, 6, 7, 11);
        assertThat(own.sampling().logitBias()).isEqualTo(Map.of(12, 100f));
        assertThat(own.sampling().maxTokens()).hasValue(1);
        own.sink().on(token(12, -1.25, false));
        assertThat(differences)
                .singleElement()
                .satisfies(difference -> assertThat(difference).isCloseTo(0.25, within(1e-6)));
    }

    @Test
    void aTokenImpossibleOnTheGpuHasTheMaxDifference() {
        generate(watched(1, -1), true);
        again.getFirst().sink().on(token(99, 0, false));
        assertThat(differences).containsExactly(100.0);
    }

    @Test
    void clientsReceiveLogprobsOnlyOnRequest() {
        generate(watched(1, -1), true);
        assertThat(seen).hasSize(4);
        assertThat(seen.subList(0, 3))
                .allSatisfy(event ->
                        assertThat(((TokenEvent.Token) event).logprobs()).isEmpty());
        seen.clear();
        Request asks = watched(1, 2);
        assertThat(asks.sampling().logprobs()).isEqualTo(2);
        generate(asks, true);
        assertThat(seen.subList(0, 3))
                .allSatisfy(event ->
                        assertThat(((TokenEvent.Token) event).logprobs()).isPresent());
    }

    @Test
    void requestsWithoutHostTokensAreNotVerified() {
        generate(watched(1, -1), false);
        assertThat(again).isEmpty();
    }

    @Test
    void requestsOutsideTheFractionAreUnchanged() {
        assertThat(watched(0, -1).sampling().logprobs()).isEqualTo(-1);
        SamplingParams sampling = SamplingParams.builder().build();
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            requests.add(new Request("r" + i, new int[] {1}, sampling, 0, TextDecoder.none(), event -> {}));
        }
        List<Request> some = new ShadowVerification(0.1, 7, again::add, listener).watch(requests);
        assertThat(some.stream()
                        .filter(request -> request.sampling().logprobs() == 0)
                        .count())
                .as("seed 7")
                .isBetween(70L, 130L);
    }

    @Test
    void aFullQueueDropsOnlyTheComparison() {
        Request request =
                new Request("r", new int[] {5}, SamplingParams.builder().build(), 0, TextDecoder.none(), seen::add);
        ShadowVerification shadowVerification = new ShadowVerification(
                1,
                1,
                own -> {
                    throw RequestException.of(RequestException.Category.UNAVAILABLE, "the queue is full");
                },
                listener);
        for (int i = 0; i < 2 * ShadowVerification.MAX_VERIFICATIONS; i++) {
            seen.clear();
            generate(shadowVerification.watch(List.of(request)).getFirst(), true);
            assertThat(seen).hasSize(4);
        }
        assertThat(differences).isEmpty();
        assertThat(dropped)
                .as("all dropped, because none was accepted")
                .isEqualTo(2 * ShadowVerification.MAX_VERIFICATIONS);
    }

    @Test
    void verificationsBeyondTheMaxAreDropped() {
        Request request =
                new Request("r", new int[] {5}, SamplingParams.builder().build(), 0, TextDecoder.none(), seen::add);
        ShadowVerification shadowVerification = new ShadowVerification(1, 1, again::add, listener);
        for (int i = 0; i < 3 * ShadowVerification.MAX_VERIFICATIONS; i++) {
            generate(shadowVerification.watch(List.of(request)).getFirst(), true);
        }
        assertThat(again).hasSize(ShadowVerification.MAX_VERIFICATIONS);
        assertThat(dropped).isEqualTo(2 * ShadowVerification.MAX_VERIFICATIONS);
        again.getFirst().sink().on(new TokenEvent.Finished(FinishReason.LENGTH, "", "", USAGE));
        again.getLast().sink().on(new TokenEvent.Failed("the device is gone"));
        assertThat(dropped).isEqualTo(2 * ShadowVerification.MAX_VERIFICATIONS + 1);
        for (int i = 0; i < 3; i++) {
            generate(shadowVerification.watch(List.of(request)).getFirst(), true);
        }
        assertThat(again).as("two have ended").hasSize(ShadowVerification.MAX_VERIFICATIONS + 2);
    }

    @Test
    void verificationRequestsAreNotReported() {
        generate(watched(1, -1), true);
        List<String> counted = new ArrayList<>();
        EngineListener others = ShadowVerification.withoutVerifications(new EngineListener() {
            @Override
            public void firstToken(Request request, long sinceArrival) {
                counted.add("first " + request.id());
            }

            @Override
            public void finished(Request request, FinishReason reason, Usage usage) {
                counted.add("finished " + request.id());
            }

            @Override
            public void failed(Request request, String message) {
                counted.add("failed " + request.id());
            }
        });
        Request own = again.getFirst();
        others.firstToken(own, 1);
        others.finished(own, FinishReason.LENGTH, USAGE);
        others.failed(own, "why");
        assertThat(counted).isEmpty();
        Request client =
                new Request("c", new int[] {5}, SamplingParams.builder().build(), 0, TextDecoder.none(), seen::add);
        others.firstToken(client, 1);
        others.finished(client, FinishReason.LENGTH, USAGE);
        others.failed(client, "why");
        assertThat(counted).containsExactly("first c", "finished c", "failed c");
    }
}
