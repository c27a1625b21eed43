package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.TokenSink;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.PlanCommitter;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.strategy.GpuOnly;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A failure in one request's callbacks or logits ends that request, and nothing else. */
class ContainmentTest {
    private static final TextDecoder BROKEN_DECODER = TextDecoder.of(
            token -> {
                throw new IllegalStateException("no such token");
            },
            () -> "");

    private final FakeExecutor executor = new FakeExecutor();
    private final VirtualClock clock = new VirtualClock();
    private final AdmissionQueue queue = new AdmissionQueue(8, clock);
    private final Budget budget = new Budget(64, 8, 64);
    private final EngineConfig config = new EngineConfig(budget, Set.of(), 64, 8, 1);
    /** The events that each request received. */
    private final Map<String, List<TokenEvent>> heard = new HashMap<>();

    private Scheduler gpuOnly() {
        return PolicyScheduler.of(new GpuOnly(budget, Preemption.SWAP));
    }

    private EngineLoop loop(EngineListener listener) {
        return new EngineLoop(config, queue, gpuOnly(), executor, clock, listener);
    }

    private Request request(String id, int tokens, TextDecoder decoder, TokenSink sink) {
        List<TokenEvent> events = heard.computeIfAbsent(id, absent -> new ArrayList<>());
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0)
                .maxTokens(tokens)
                .ignoreEos(true)
                .build();
        return new Request(id, new int[] {1, 2, 3}, sampling, 0, decoder, event -> {
            events.add(event);
            sink.on(event);
        });
    }

    private Request plain(String id, int tokens) {
        return request(id, tokens, TextDecoder.none(), event -> {});
    }

    private void run(EngineLoop loop) {
        for (int steps = 0; !loop.isIdle(); steps++) {
            assertThat(steps).isLessThan(10_000);
            loop.step();
            loop.checkIntegrity();
        }
        assertThat(loop.stats().gpu().used() + loop.stats().host().used()).isZero();
    }

    private void assertFinished(String id, int tokens) {
        assertThat(heard.get(id)).as(id).hasSize(tokens + 1);
        assertThat(heard.get(id).getLast()).as(id).isInstanceOf(TokenEvent.Finished.class);
    }

    private void assertFailed(String id, String... words) {
        assertThat(heard.get(id).getLast())
                .as(id)
                .isInstanceOfSatisfying(
                        TokenEvent.Failed.class,
                        failed -> assertThat(failed.message()).contains(words));
        assertThat(heard.get(id).stream().filter(event -> !(event instanceof TokenEvent.Token)))
                .as(id)
                .hasSize(1);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aDecoderThatThrowsEndsOnlyItsRequest(boolean allowsAsyncScheduling) {
        executor.allowsAsyncScheduling = allowsAsyncScheduling;
        EngineLoop loop = loop(EngineListener.NONE);
        queue.offer(List.of(plain("a", 5), request("b", 5, BROKEN_DECODER, event -> {}), plain("c", 5)));
        run(loop);
        assertFinished("a", 5);
        assertFailed("b", "text decoder", "no such token");
        assertThat(heard.get("b")).hasSize(1);
        assertFinished("c", 5);
    }

    @Test
    void aDecoderThatThrowsInFinishEndsOnlyItsRequest() {
        EngineLoop loop = loop(EngineListener.NONE);
        TextDecoder overflow = TextDecoder.of(token -> "", () -> {
            throw new StackOverflowError();
        });
        queue.offer(List.of(request("a", 2, overflow, event -> {}), plain("b", 2)));
        run(loop);
        assertFailed("a", "text decoder", "StackOverflowError");
        assertFinished("b", 2);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aSinkThatThrowsEndsOnlyItsRequest(boolean allowsAsyncScheduling) {
        executor.allowsAsyncScheduling = allowsAsyncScheduling;
        EngineLoop loop = loop(EngineListener.NONE);
        TokenSink broken = event -> {
            throw new IllegalStateException("the client's queue is broken");
        };
        queue.offer(List.of(plain("a", 3), request("b", 9, TextDecoder.none(), broken), plain("c", 3)));
        run(loop);
        assertFinished("a", 3);
        assertFailed("b", "event sink", "the client's queue is broken");
        assertThat(heard.get("b"))
                .as("one token, on which it threw, and the end")
                .hasSize(2);
        assertFinished("c", 3);
    }

    @Test
    void aListenerThatThrowsEndsNoRequest() {
        EngineLoop loop = loop(new EngineListener() {
            @Override
            public void step(StepRecord record) {
                throw new IllegalStateException("step");
            }

            @Override
            public void firstToken(Request request, long sinceArrival) {
                throw new OutOfMemoryError("first");
            }

            @Override
            public void nextToken(Request request, long sincePrevious) {
                throw new IllegalStateException("next");
            }

            @Override
            public void finished(Request request, FinishReason reason, Usage usage) {
                throw new IllegalStateException("finished");
            }

            @Override
            public void failed(Request request, String message) {
                throw new IllegalStateException("failed");
            }
        });
        queue.offer(List.of(plain("a", 3), request("b", 3, BROKEN_DECODER, event -> {})));
        run(loop);
        assertFinished("a", 3);
        assertFailed("b", "text decoder");
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aSequenceThatCannotBeSampledEndsOnlyItsRequest(boolean allowsAsyncScheduling) {
        executor.allowsAsyncScheduling = allowsAsyncScheduling;
        EngineLoop loop = loop(EngineListener.NONE);
        queue.offer(List.of(plain("a", 6), plain("b", 6), plain("c", 6)));
        loop.step();
        loop.step();
        executor.lose(1, false);
        run(loop);
        assertFinished("a", 6);
        assertFailed("b", "its logits are NaN");
        assertFinished("c", 6);
        assertThat(loop.stats().hostLost()).as("the host is not to blame").isEmpty();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theLastTokenMayBeLost(boolean allowsAsyncScheduling) {
        executor.allowsAsyncScheduling = allowsAsyncScheduling;
        EngineLoop loop = loop(EngineListener.NONE);
        executor.lose(0, false);
        queue.offer(List.of(plain("a", 1), plain("b", 2)));
        run(loop);
        assertFailed("a", "its logits are NaN");
        assertFinished("b", 2);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aCancelledSequenceThatIsLostReceivesOneEnd(boolean allowsAsyncScheduling) {
        executor.allowsAsyncScheduling = allowsAsyncScheduling;
        EngineLoop loop = loop(EngineListener.NONE);
        queue.offer(List.of(plain("a", 9), plain("b", 3)));
        loop.step();
        executor.lose(0, false);
        queue.cancel("a");
        run(loop);
        assertThat(heard.get("a").stream().filter(event -> !(event instanceof TokenEvent.Token)))
                .hasSize(1);
        assertFinished("b", 3);
    }

    /** Prompts go to the host, and the CPU attends for all decodes. */
    private StepDraft onHost(SchedulerState state) {
        StepDraft draft = new StepDraft(state, budget);
        for (Sequence sequence : List.copyOf(state.host())) {
            draft.add(0, sequence, 1, AttentionSite.CPU_FROM_HOST);
        }
        for (Sequence sequence : state.waiting().view()) {
            draft.start(sequence, sequence.length(), AttentionSite.GPU_PREFILL_OFFLOAD);
        }
        return draft;
    }

    private EngineLoop loopOnHost() {
        return new EngineLoop(
                config, queue, PolicyScheduler.of((state, why) -> onHost(state)), executor, clock, EngineListener.NONE);
    }

    /** Its prompt's step is planned ahead of the one that admits it, and the result of the first names the loss. */
    @Test
    void aSequenceLostAsItEntersFlightBeforeItsFirstTokenIsKnownLeavesNothing() {
        EngineLoop loop = new EngineLoop(
                config,
                queue,
                PolicyScheduler.of((state, why) -> intoFlight(state)),
                executor,
                clock,
                EngineListener.NONE);
        executor.allowsAsyncScheduling = true;
        executor.loseWorker(0);
        queue.offer(List.of(plain("a", 9)));
        for (int step = 0; step < 20 && !loop.isIdle(); step++) {
            loop.step();
        }
        assertThat(executor.submitted.stream()
                        .mapToInt(plan -> plan.admissions().size())
                        .sum())
                .isEqualTo(1);
        assertThat(loop.isIdle()).isTrue();
        assertThat(loop.stats().host().used()).isZero();
        assertFailed("a", "the worker is gone");
    }

    private StepDraft intoFlight(SchedulerState state) {
        StepDraft draft = new StepDraft(state, budget);
        List.copyOf(state.host()).forEach(draft::admit);
        for (Sequence sequence : state.waiting().view()) {
            draft.start(sequence, sequence.length(), AttentionSite.GPU_PREFILL_OFFLOAD);
        }
        return draft;
    }

    /** A worker that stalls on the step's attention may write later, so the blocks must not be free by then. */
    @Test
    void blocksThatTheCpuAttendsToAreHeldUntilTheResult() {
        EngineLoop loop = loopOnHost();
        queue.offer(List.of(plain("a", 9)));
        loop.step();
        executor.allowsAsyncScheduling = true;
        loop.step();
        int used = loop.stats().host().used();
        assertThat(used).isPositive();
        queue.cancel("a");
        executor.lose(0, true);
        run(loop);
        assertThat(executor.submitted).as("nothing is planned for it").hasSize(2);
        assertThat(loop.stats().host().quarantinedPages()).isEqualTo(used);
    }

    /** Else the token that the CPU attends to would be hit before it is known to be right. */
    @Test
    void theLastStepOfASequenceOnTheHostIsNotPlannedAhead() {
        EngineLoop loop = loopOnHost();
        queue.offer(List.of(plain("a", 3), plain("b", 4)));
        loop.step();
        executor.allowsAsyncScheduling = true;
        loop.step();
        assertThat(executor.plans).as("its result is not known").hasSize(1);
        loop.step();
        assertThat(executor.submitted).as("the last step of a is submitted").hasSize(3);
        loop.step();
        assertThat(executor.plans).as("no step after it").isEmpty();
        run(loop);
        assertFinished("a", 3);
        assertFinished("b", 4);
    }

    @Test
    void blocksThatMayStillBeWrittenAreNotGrantedAgain() {
        EngineLoop loop = loop(EngineListener.NONE);
        executor.lose(0, true);
        queue.offer(List.of(plain("a", 9), plain("b", 3)));
        run(loop);
        assertFailed("a", "its logits are NaN");
        assertFinished("b", 3);
        List<Integer> lost = blocks(executor.submitted.getFirst(), 0);
        executor.losing.clear();
        queue.offer(List.of(plain("c", 40), plain("d", 40), plain("e", 40), plain("f", 40)));
        run(loop);
        for (long key = 2; key < 6; key++) {
            for (StepPlan plan : executor.submitted) {
                assertThat(blocks(plan, key)).doesNotContainAnyElementsOf(lost);
            }
        }
    }

    private static List<Integer> blocks(StepPlan plan, long key) {
        List<Integer> blocks = new ArrayList<>();
        plan.subBatches()
                .forEach(batch -> batch.chunks().stream()
                        .filter(chunk -> chunk.sequence() == key)
                        .forEach(chunk -> {
                            for (int block : chunk.kv(0).blocks()) {
                                blocks.add(block);
                            }
                        }));
        return blocks;
    }

    private Engine engine() {
        return new Engine(config, gpuOnly(), executor, clock, EngineListener.NONE);
    }

    @Test
    void everyClientReceivesAFailureEvenIfOthersThrow() throws Exception {
        executor.broken = true;
        executor.onClose = new IllegalStateException("the device does not close");
        Engine engine = engine();
        TokenSink broken = event -> {
            throw new IllegalStateException("broken");
        };
        TokenSink again = event -> engine.submit(plain("again", 1));
        engine.submit(List.of(
                request("a", 3, BROKEN_DECODER, broken),
                request("b", 3, BROKEN_DECODER, broken),
                request("c", 3, TextDecoder.none(), again),
                plain("d", 3)));
        engine.start();
        assertThat(engine.drain(Duration.ofSeconds(60))).isTrue();
        for (String id : List.of("a", "b", "c", "d")) {
            assertFailed(id, "the device is gone");
        }
        assertThat(executor.closed).isTrue();
        assertThat(engine.health()).isEqualTo(new Engine.Health.Dead("the device is gone"));
        assertThatThrownBy(() -> engine.submit(plain("e", 1)))
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("the device is gone");
        engine.close();
    }

    @Test
    void drainingDoesNotHideThatTheEngineIsDead() throws Exception {
        executor.broken = true;
        try (Engine engine = engine()) {
            engine.submit(plain("a", 3));
            engine.start();
            assertThat(engine.drain(Duration.ofSeconds(60))).isTrue();
            assertThat(engine.drain(Duration.ofSeconds(60))).isTrue();
            assertThat(engine.health()).isInstanceOf(Engine.Health.Dead.class);
        }
    }

    @Test
    void closingAnEngineThatNeverStartedFailsItsRequests() {
        Engine engine = engine();
        engine.submit(plain("a", 3));
        engine.close();
        assertFailed("a", "shut down");
        assertThat(executor.closed).isTrue();
    }

    @Test
    void whenEndedCompletesAfterTheClientsAndBeforeTheExecutorIsClosed() throws Exception {
        executor.broken = true;
        CountDownLatch told = new CountDownLatch(1);
        executor.beforeClose = () -> await(told);
        Engine engine = engine();
        engine.submit(plain("a", 3));
        engine.whenEnded().thenAccept(dead -> {
            assertThat(dead.reason()).isEqualTo("the device is gone");
            assertFailed("a", "the device is gone");
            assertThat(executor.closed).isFalse();
            told.countDown();
            engine.close(); // may wait for the engine thread
        });
        engine.start();
        assertThat(engine.drain(Duration.ofSeconds(60)))
                .as("failed while the executor waits for that")
                .isTrue();
    }

    private static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void aSinkMayCloseTheEngineButNotWaitForIt() throws Exception {
        Engine engine = engine();
        engine.submit(request("a", 3, TextDecoder.none(), event -> drain(engine)));
        engine.submit(request("b", 9, TextDecoder.none(), event -> engine.close()));
        engine.start();
        assertThat(engine.drain(Duration.ofSeconds(60))).isTrue();
        assertFailed("a", "drain on another thread");
        assertThat(heard.get("b").getLast()).isNotInstanceOf(TokenEvent.Token.class);
    }

    private static void drain(Engine engine) {
        try {
            engine.drain(Duration.ofSeconds(60));
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void aSinkThatResubmitsOnFailureDoesNotBlockOthers() {
        EngineLoop loop = loop(EngineListener.NONE);
        int[] submitted = {0};
        TokenSink[] stubborn = new TokenSink[1];
        stubborn[0] = event -> {
            if (submitted[0]++ < 100_000) {
                queue.offer(List.of(request("same", 3, TextDecoder.none(), stubborn[0])));
            }
        };
        queue.offer(List.of(plain("same", 30), request("same", 3, TextDecoder.none(), stubborn[0]), plain("b", 3)));
        for (int steps = 0; steps < 5; steps++) {
            loop.step();
        }
        assertFinished("b", 3);
        assertThat(submitted[0]).isLessThan(10);
    }

    /** A scheduler that never schedules a request. */
    private static final class NoRoom implements Scheduler {
        private long steps;

        @Override
        public StepPlan plan(SchedulerState state, PlanCommitter committer) {
            return StepPlan.unified(steps++, List.of(), List.of());
        }

        @Override
        public Decision completed(StepResult result, long nanos) {
            return new Decision();
        }
    }

    @Test
    void requestsThatNoStepCanServeEndWithAnError() {
        EngineLoop loop = new EngineLoop(config, queue, new NoRoom(), executor, clock, EngineListener.NONE);
        queue.offer(List.of(plain("a", 3), plain("b", 3)));
        run(loop);
        assertFailed("a", "cannot be scheduled");
        assertFailed("b", "cannot be scheduled");
    }

    @Test
    void errorsCountBlocksOfAllLayersWhereLayersAreGrouped() {
        executor.windows = List.of(0, 16, 16, 16);
        EngineLoop loop = new EngineLoop(config, queue, new NoRoom(), executor, clock, EngineListener.NONE);
        queue.offer(List.of(plain("a", 3)));
        run(loop);
        assertFailed("a", "it needs 1 KV blocks, and of the GPU pool's 8 blocks 8 are free");
        executor.gpuBlocks = 3;
        assertThatThrownBy(this::engine).hasMessageContaining("needs 4 KV blocks of 16 tokens but the GPU pool has 3;");
    }

    @Test
    void anEngineWhoseRequestsCannotBeScheduledDrains() throws Exception {
        try (Engine engine = new Engine(config, new NoRoom(), executor, clock, EngineListener.NONE).start()) {
            CountDownLatch failed = new CountDownLatch(1);
            engine.submit(request("a", 3, TextDecoder.none(), event -> failed.countDown()));
            assertThat(failed.await(60, TimeUnit.SECONDS)).isTrue();
            assertThat(engine.health()).isInstanceOf(Engine.Health.Serving.class);
            assertThat(engine.drain(Duration.ofSeconds(60))).isTrue();
        }
    }
}
