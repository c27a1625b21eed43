package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.queue.EngineCommand;
import dev.tandem.engine.queue.WaitingQueue;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.sampling.RandomGrammar;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Which requests the engine accepts, and in which order it runs them. */
class AdmissionTest {
    private static final int CONTEXT = 64;

    private final Budget budget = new Budget(64, 8, 64);
    private final VirtualClock clock = new VirtualClock();
    private final AdmissionQueue queue = new AdmissionQueue(2, clock);

    private Engine engine(SchedulingPolicy policy) {
        EngineConfig config = new EngineConfig(budget, Set.of(0), CONTEXT, 8, 1, 0, policy);
        return new Engine(
                config,
                PolicyScheduler.of(new GpuOnly(budget, Preemption.SWAP)),
                new FakeExecutor(),
                clock,
                EngineListener.NONE);
    }

    private static Request request(int prompt, OptionalInt maxTokens, int priority) {
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0)
                .maxTokens(maxTokens)
                .ignoreEos(true)
                .build();
        int[] tokens = IntStream.range(1, prompt + 1).toArray();
        return new Request("r", tokens, sampling, priority, TextDecoder.none(), event -> {});
    }

    @ParameterizedTest
    @CsvSource({
        "60, 5, max_tokens, 65",
        "1, 2147483647, max_tokens, 2147483648",
        "64, 1, prompt, 65",
        "64, , prompt, 64"
    })
    void requestsBeyondTheContextAreRefusedWithVllmsMessage(
            int prompt, Integer maxTokens, String parameter, long requested) {
        try (Engine engine = engine(SchedulingPolicy.FCFS)) {
            OptionalInt completion = maxTokens == null ? OptionalInt.empty() : OptionalInt.of(maxTokens);
            assertThatThrownBy(() -> engine.submit(request(prompt, completion, 0)))
                    .isInstanceOfSatisfying(RequestException.class, e -> {
                        assertThat(e.category()).isEqualTo(RequestException.Category.BAD_REQUEST);
                        assertThat(e.parameter()).isEqualTo(parameter);
                    })
                    .hasMessageStartingWith("This model's maximum context length is 64 tokens. However, you requested "
                            + requested + " tokens");
            assertThatCode(() -> engine.submit(request(60, OptionalInt.of(4), 0)))
                    .doesNotThrowAnyException();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {-1, 100})
    void tokensOutsideTheVocabularyAreRefused(int token) {
        SamplingParams.Builder stops = SamplingParams.builder().stopTokenIds(Set.of(token));
        SamplingParams.Builder biases = SamplingParams.builder().logitBias(Map.of(token, 1f));
        try (Engine engine = engine(SchedulingPolicy.FCFS)) {
            assertRefused(engine, "prompt", token, SamplingParams.builder(), 0, 99, token);
            assertRefused(engine, "stop_token_ids", token, stops, 0, 99);
            assertRefused(engine, "logit_bias", token, biases, 0, 99);
        }
    }

    private static void assertRefused(
            Engine engine, String field, int token, SamplingParams.Builder sampling, int... prompt) {
        Request request = new Request("r", prompt, sampling.build(), 0, TextDecoder.none(), event -> {});
        assertThatThrownBy(() -> engine.submit(request))
                .isInstanceOfSatisfying(
                        RequestException.class, e -> assertThat(e.parameter()).isEqualTo(field))
                .hasMessage(field + " has token id " + token + ", which is not in the vocabulary of 100");
    }

    @ParameterizedTest
    @CsvSource({"2147483647", "61", "''"})
    void outputIsBoundedByWhatThePromptLeavesOfTheContext(String maxTokens) {
        List<TokenEvent> events = new ArrayList<>();
        OptionalInt max = maxTokens.isEmpty() ? OptionalInt.empty() : OptionalInt.of(Integer.parseInt(maxTokens));
        Request request = request(3, max, 0);
        queue.offer(
                List.of(new Request("r", request.prompt(), request.sampling(), 0, TextDecoder.none(), events::add)));
        EngineConfig config = new EngineConfig(budget, Set.of(), CONTEXT, 8, 1);
        EngineLoop loop = new EngineLoop(
                config,
                queue,
                PolicyScheduler.of(new GpuOnly(budget, Preemption.SWAP)),
                new FakeExecutor(),
                clock,
                EngineListener.NONE);
        while (!loop.isIdle()) {
            loop.step();
        }
        assertThat(events).as("tokens and the end").hasSize(CONTEXT - 3 + 1);
    }

    @Test
    void prioritiesNeedThePriorityPolicy() {
        try (Engine fcfs = engine(SchedulingPolicy.FCFS);
                Engine priority = engine(SchedulingPolicy.PRIORITY)) {
            assertThatThrownBy(() -> fcfs.submit(request(3, OptionalInt.empty(), 5)))
                    .isInstanceOfSatisfying(
                            RequestException.class,
                            e -> assertThat(e.parameter()).isEqualTo("priority"))
                    .hasMessageContaining("priority is 5")
                    .hasMessageContaining("--scheduling-policy priority");
            assertThatCode(() -> priority.submit(request(3, OptionalInt.empty(), 5)))
                    .doesNotThrowAnyException();
        }
    }

    @Test
    void minTokensNeedsATokenThatDoesNotEnd() {
        try (Engine engine = engine(SchedulingPolicy.FCFS)) {
            Set<Integer> allButTheEnd = IntStream.range(1, 100).boxed().collect(Collectors.toSet());
            SamplingParams.Builder sampling = SamplingParams.builder().stopTokenIds(allButTheEnd);
            Request free = new Request("a", new int[] {1}, sampling.build(), 0, TextDecoder.none(), event -> {});
            Request stuck =
                    new Request("b", new int[] {1}, sampling.minTokens(1).build(), 0, TextDecoder.none(), event -> {});
            assertThatCode(() -> engine.submit(free)).doesNotThrowAnyException();
            assertThatThrownBy(() -> engine.submit(stuck))
                    .isInstanceOfSatisfying(
                            RequestException.class,
                            e -> assertThat(e.parameter()).isEqualTo("stop_token_ids"))
                    .hasMessageContaining("all 100 tokens");
        }
    }

    private static Sequence sequence(long key, long arrivedSeconds, int priority) {
        Request request = request(3, OptionalInt.empty(), priority);
        TokenSampler sampler = new TokenSampler(request.sampling(), request.prompt(), Set.of(), 1);
        return new Sequence(key, request, arrivedSeconds * 1_000_000_000, CONTEXT, sampler);
    }

    @Test
    void aLowPriorityWaitsForABoundedTime() {
        TreeSet<Sequence> order = new TreeSet<>(WaitingQueue.ORDER);
        Sequence low = sequence(0, 100, 3);
        Sequence urgent = sequence(1, 115, -1);
        Sequence soon = sequence(2, 129, 0);
        Sequence late = sequence(3, 131, 0);
        Sequence never = sequence(4, 0, Integer.MAX_VALUE);
        Sequence first = sequence(5, 300, Integer.MIN_VALUE);
        order.addAll(List.of(low, urgent, soon, late, never, first));
        assertThat(order).containsExactly(first, urgent, soon, low, late, never);
    }

    @Test
    void internalRequestsTakeNoPlaceInTheQueue() {
        queue.offer(List.of(request(1, OptionalInt.empty(), 0), request(1, OptionalInt.empty(), 0)));
        Request own = request(2, OptionalInt.empty(), 0);
        queue.offerInternal(own);
        assertThat(queue.waiting()).isEqualTo(2);
        assertThatThrownBy(() -> queue.offer(List.of(request(1, OptionalInt.empty(), 0))))
                .hasMessageContaining("the queue holds 2");
        queue.poll();
        queue.poll();
        assertThat(queue.poll())
                .isInstanceOfSatisfying(
                        EngineCommand.Submit.class,
                        submit -> assertThat(submit.request()).isSameAs(own));
        queue.close();
        assertThatThrownBy(() -> queue.offerInternal(own)).hasMessageContaining("shutting down");
    }

    @Test
    void requestsWhoseKvWasDroppedCountAsWaiting() {
        AdmissionQueue large = new AdmissionQueue(8, clock);
        EngineConfig config = new EngineConfig(budget, Set.of(), CONTEXT, 8, 1);
        EngineLoop loop = new EngineLoop(
                config,
                large,
                PolicyScheduler.of(new GpuOnly(budget, Preemption.RECOMPUTE)),
                new FakeExecutor(),
                clock,
                EngineListener.NONE);
        for (int i = 0; i < 6; i++) {
            Request request = request(14, OptionalInt.empty(), 0);
            large.offer(List.of(
                    new Request("r" + i, request.prompt(), request.sampling(), 0, TextDecoder.none(), event -> {})));
        }
        int maxDropped = 0;
        while (!loop.isIdle()) {
            loop.step();
            var stats = loop.stats();
            maxDropped = Math.max(maxDropped, stats.requests().dropped());
            assertThat(stats.requests().dropped())
                    .isBetween(
                            0, 6 - stats.requests().waiting() - stats.requests().running());
        }
        assertThat(maxDropped).as("8 blocks for six sequences of 4").isPositive();
        assertThat(loop.stats().requests().dropped() + loop.stats().requests().waiting())
                .isZero();
    }

    @Test
    void matchersAreFreedHoweverTheRequestEnds() {
        RandomGrammar grammar = new RandomGrammar(1, 100);
        SamplingParams sampling = SamplingParams.builder()
                .maxTokens(3)
                .grammar(Optional.of(grammar))
                .build();
        List<Request> requests = Stream.of("a", "b", "a")
                .map(id -> new Request(id, new int[] {1}, sampling, 0, TextDecoder.none(), event -> {}))
                .toList();
        assertThatThrownBy(() -> queue.offer(requests)).isInstanceOf(RequestException.class);
        assertThat(grammar.open).as("refused by the queue").isZero();
        EngineLoop loop = new EngineLoop(
                new EngineConfig(budget, Set.of(), CONTEXT, 8, 1),
                queue,
                PolicyScheduler.of(new GpuOnly(budget, Preemption.SWAP)),
                new FakeExecutor(),
                clock,
                EngineListener.NONE);
        queue.offer(requests.subList(0, 2));
        loop.step();
        queue.offer(requests.subList(2, 3));
        queue.cancel("b");
        loop.step();
        assertThat(grammar.open).as("the first request runs on").isEqualTo(1);
        loop.failAll("stop");
        assertThat(grammar.open).isZero();
    }
}
