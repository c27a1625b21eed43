package dev.tandem.engine.loop;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.RequestSnapshot;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.sampling.Choice;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.strategy.GpuOnly;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletionStage;
import org.junit.jupiter.api.Test;

/** The order of submits, polls and events to clients. */
class EngineLoopTest {
    private final List<String> events = new ArrayList<>();
    private boolean computesInSubmit;
    private boolean allowsAsyncScheduling;
    private long lastAhead = Long.MAX_VALUE;
    private boolean broken;
    private String trouble;

    /** Always chooses token 7, and notes when it is asked. */
    private final Executor executor = new Executor() {
        private final Queue<StepPlan> plans = new ArrayDeque<>();
        private long last;

        @Override
        public boolean allowsAsyncScheduling() {
            return allowsAsyncScheduling && last <= lastAhead;
        }

        @Override
        public boolean computesInSubmit() {
            return computesInSubmit;
        }

        @Override
        public ExecutorLimits limits() {
            return ExecutorLimits.builder()
                    .vocabulary(100)
                    .contextTokens(64)
                    .blockTokens(16)
                    .gpuBlocks(8)
                    .hostBlocks(8)
                    .maxBatchTokens(64)
                    .build();
        }

        @Override
        public void submit(StepPlan next) {
            plans.add(next);
            last = next.step();
            boolean awaits = next.subBatches().stream()
                    .flatMap(batch -> batch.chunks().stream())
                    .anyMatch(chunk -> chunk.tokens()[0] == Chunk.PLACEHOLDER);
            events.add("submit " + next.step() + (awaits ? " placeholders" : ""));
        }

        @Override
        public void submitLayers(StepPlan next) {
            submit(next);
            events.add("not sampled");
        }

        @Override
        public void sample(Set<Long> skipped) {
            events.add("sample without " + skipped);
        }

        @Override
        public Optional<String> trouble() {
            return Optional.ofNullable(trouble);
        }

        @Override
        public StepResult poll() {
            if (broken) {
                throw new ExecutorException("the device is gone");
            }
            StepPlan plan = plans.remove();
            events.add("poll " + plan.step());
            List<StepResult.Sampled> sampled = plan.subBatches().stream()
                    .flatMap(batch -> batch.chunks().stream())
                    .filter(chunk -> chunk.sampler().isPresent())
                    .map(chunk ->
                            new StepResult.Sampled(chunk.sequence(), new Choice(7, Optional.empty()), chunk.site()))
                    .toList();
            return new StepResult(plan.step(), sampled, List.of(), List.of(), StepTimes.NONE);
        }

        @Override
        public void close() {}
    };

    private final VirtualClock clock = new VirtualClock();
    private final AdmissionQueue queue = new AdmissionQueue(8, clock);
    private final Budget budget = new Budget(64, 8, 64);
    private final EngineLoop loop = new EngineLoop(
            new EngineConfig(budget, Set.of(), 64, 8, 1),
            queue,
            PolicyScheduler.of(new GpuOnly(budget, Preemption.SWAP)),
            executor,
            clock,
            EngineListener.NONE);

    private void submit(String id, SamplingParams sampling) {
        queue.offer(List.of(request(id, sampling)));
    }

    private Request request(String id, SamplingParams sampling) {
        return new Request(
                id,
                new int[] {1, 2, 3},
                sampling,
                0,
                TextDecoder.none(),
                event -> events.add(
                        switch (event) {
                            case TokenEvent.Token token -> id + " token";
                            case TokenEvent.Finished finished -> id + " finished " + finished.reason();
                            case TokenEvent.Failed failed -> id + " failed";
                        }));
    }

    private static SamplingParams.Builder greedy(int tokens) {
        return SamplingParams.builder().temperature(0).maxTokens(tokens).ignoreEos(true);
    }

    @Test
    void tokensAreProcessedWhileTheNextStepRuns() {
        submit("a", greedy(2).build());
        run();
        assertThat(events)
                .containsExactly("submit 0", "poll 0", "submit 1", "a token", "poll 1", "a token", "a finished LENGTH");
    }

    @Test
    void theNextStepIsSubmittedWhileOneRuns() {
        allowsAsyncScheduling = true;
        submit("a", greedy(3).build());
        run();
        assertThat(events)
                .containsExactly(
                        "submit 0",
                        "submit 1 placeholders",
                        "poll 0",
                        "submit 2 placeholders",
                        "a token",
                        "poll 1",
                        "a token",
                        "poll 2",
                        "a token",
                        "a finished LENGTH");
    }

    /** A presence penalty depends on the token before. */
    @Test
    void aStepWhoseDrawsDependOnATokenIsSampledOnceItIsKnown() {
        allowsAsyncScheduling = true;
        submit("a", greedy(3).presencePenalty(1).build());
        run();
        assertThat(events)
                .containsExactly(
                        "submit 0",
                        "submit 1 placeholders",
                        "not sampled",
                        "poll 0",
                        "sample without []",
                        "submit 2 placeholders",
                        "not sampled",
                        "a token",
                        "poll 1",
                        "sample without []",
                        "a token",
                        "poll 2",
                        "a token",
                        "a finished LENGTH");
    }

    @Test
    void aRequestThatHasEndedIsNotSampled() {
        allowsAsyncScheduling = true;
        submit("a", greedy(9).presencePenalty(1).stopTokenIds(Set.of(7)).build());
        run();
        assertThat(events)
                .containsExactly(
                        "submit 0",
                        "submit 1 placeholders",
                        "not sampled",
                        "poll 0",
                        "sample without [0]",
                        "a token",
                        "a finished STOP",
                        "poll 1");
    }

    @Test
    void tokensAfterAnUnexpectedEndAreDropped() {
        allowsAsyncScheduling = true;
        submit("a", greedy(9).stopTokenIds(Set.of(7)).build());
        run();
        assertThat(events)
                .containsExactly("submit 0", "submit 1 placeholders", "poll 0", "a token", "a finished STOP", "poll 1");
        assertThat(loop.stats().gpu().used()).isZero();
    }

    @Test
    void hostBlocksOfARunningStepAreFreedAfterIt() {
        allowsAsyncScheduling = true;
        lastAhead = 0;
        submit("a", greedy(9).stopTokenIds(Set.of(7)).build());
        loop.step();
        loop.step();
        loop.checkIntegrity();
        assertThat(events)
                .as("a stop token ends it, and step 1 still runs")
                .containsExactly("submit 0", "submit 1 placeholders", "poll 0");
        assertThat(loop.stats().gpu().used()).isPositive();
        run();
        assertThat(events).endsWith("a token", "a finished STOP", "poll 1");
        assertThat(loop.stats().gpu().used()).isZero();
    }

    private RequestSnapshot asked(CompletionStage<RequestSnapshot> snapshot) {
        return snapshot.toCompletableFuture().getNow(RequestSnapshot.empty(-1));
    }

    @Test
    void theNextTurnPassesTheLiveRequestsToThoseWhoAsk() {
        submit("a", greedy(9).build());
        for (int i = 0; i < 4; i++) {
            submit("b" + i, greedy(61).build()); // of a GPU pool of 8 blocks, each takes four in the end
        }
        CompletionStage<RequestSnapshot> snapshot = loop.snapshots().ask();
        CompletionStage<RequestSnapshot> other = loop.snapshots().ask();
        assertThat(asked(snapshot).nanos()).isEqualTo(-1);
        clock.advance(1_000_000);
        loop.step();
        assertThat(asked(snapshot)).isSameAs(asked(other));
        assertThat(asked(snapshot).live()).isEqualTo(5);
        RequestSnapshot.Entry first = asked(snapshot).requests().getFirst();
        assertThat(first.id()).isEqualTo("a");
        assertThat(first.standing()).isEqualTo(RequestSnapshot.Standing.GPU);
        assertThat(first.tokens()).isEqualTo(new RequestSnapshot.Tokens(3, 1, 3, 0, 12));
        assertThat(first.blocks()).isEqualTo(1);
        assertThat(first.times()).isEqualTo(new RequestSnapshot.Times(1_000_000, 1_000_000, 0));
    }

    @Test
    void aSnapshotServesForATenthOfASecond() {
        submit("a", greedy(9).build());
        CompletionStage<RequestSnapshot> first = loop.snapshots().ask();
        loop.step();
        clock.advance(SnapshotRequests.MAX_AGE_NANOS - 1);
        assertThat(asked(loop.snapshots().ask())).isSameAs(asked(first));
        clock.advance(1);
        CompletionStage<RequestSnapshot> second = loop.snapshots().ask();
        assertThat(asked(second).nanos()).isEqualTo(-1);
        run();
        assertThat(asked(second)).isNotSameAs(asked(first));
        CompletionStage<RequestSnapshot> none = loop.snapshots().ask();
        assertThat(asked(none)).isSameAs(asked(second));
    }

    @Test
    void thoseWhoAskAreAnsweredWhenTheEngineEnds() {
        submit("a", greedy(9).build());
        CompletionStage<RequestSnapshot> snapshot = loop.snapshots().ask();
        loop.failAll("the end");
        assertThat(asked(snapshot).live()).isZero();
        assertThat(asked(snapshot).nanos()).isZero();
    }

    @Test
    void aCancelledClientReceivesNoTokensOfRunningSteps() {
        allowsAsyncScheduling = true;
        submit("a", greedy(9).build());
        loop.step();
        queue.cancel("a");
        run();
        assertThat(events).containsExactly("submit 0", "a finished ABORT", "poll 0");
    }

    @Test
    void blocksOfASequenceAtItsLimitAreFreeWhileItsStepRuns() {
        allowsAsyncScheduling = true;
        submit("a", greedy(1).build());
        loop.step();
        loop.checkIntegrity();
        assertThat(loop.stats().gpu().used()).isZero();
        assertThat(loop.isIdle()).as("its token has not been polled").isFalse();
        run();
        assertThat(events).containsExactly("submit 0", "poll 0", "a token", "a finished LENGTH");
    }

    @Test
    void aStepThatTakesTooLongDegradesTheHealth() {
        Engine engine = new Engine(
                new EngineConfig(budget, Set.of(), 64, 8, 1),
                PolicyScheduler.of(new GpuOnly(budget, Preemption.SWAP)),
                executor,
                clock,
                EngineListener.NONE);
        assertThat(engine.health()).isEqualTo(new Engine.Health.Serving());
        trouble = "step 7 has kept the GPU for 3.0 s";
        assertThat(engine.health()).isEqualTo(new Engine.Health.Degraded(trouble));
        trouble = null;
        assertThat(engine.health()).isEqualTo(new Engine.Health.Serving());
        engine.close();
    }

    @Test
    void everyClientReceivesAFailureWhenTheDeviceIsGone() throws InterruptedException {
        allowsAsyncScheduling = true;
        broken = true;
        Engine engine = new Engine(
                new EngineConfig(budget, Set.of(), 64, 8, 1),
                PolicyScheduler.of(new GpuOnly(budget, Preemption.SWAP)),
                executor,
                clock,
                EngineListener.NONE);
        engine.submit(request("a", greedy(1).build()));
        engine.submit(request("b", greedy(9).build()));
        assertThat(engine.start().drain(Duration.ofSeconds(60))).isTrue();
        assertThat(events).contains("a failed", "b failed");
    }

    private void run() {
        while (!loop.isIdle()) {
            loop.step();
            loop.checkIntegrity();
        }
    }

    @Test
    void tokensDoNotWaitForAStepThatIsComputedInSubmit() {
        computesInSubmit = true;
        submit("a", greedy(2).build());
        loop.step();
        loop.step();
        assertThat(events).containsExactly("submit 0", "poll 0", "a token", "submit 1", "poll 1");
    }

    @Test
    void tokensThatMayCompleteAStopStringAreProcessedAtOnce() {
        submit("a", greedy(2).stop(List.of("x")).build());
        loop.step();
        assertThat(events).containsExactly("submit 0", "poll 0", "a token");
    }

    @Test
    void stopStringsCountOnlyAfterMinTokens() {
        StringBuilder text = new StringBuilder();
        Request request = new Request(
                "a",
                new int[] {1, 2, 3},
                greedy(9).stop(List.of("xx")).minTokens(3).build(),
                0,
                TextDecoder.of(token -> "x", () -> ""),
                event -> {
                    switch (event) {
                        case TokenEvent.Token token -> text.append(token.text());
                        case TokenEvent.Finished finished ->
                            text.append(finished.text()).append('|').append(finished.stopReason());
                        case TokenEvent.Failed failed -> text.append(failed);
                    }
                });
        queue.offer(List.of(request));
        run();
        assertThat(text).as("the fourth token completes the stop string").hasToString("xx|xx");
    }

    @Test
    void theStopTokensTextIsIncludedOnRequest() {
        for (boolean include : new boolean[] {false, true}) {
            StringBuilder text = new StringBuilder();
            SamplingParams sampling =
                    greedy(9).stopTokenIds(Set.of(7)).includeStop(include).build();
            Request request = new Request(
                    "a", new int[] {1, 2, 3}, sampling, 0, TextDecoder.of(token -> "<stop>", () -> "."), event -> {
                        switch (event) {
                            case TokenEvent.Token token -> text.append(token.text());
                            case TokenEvent.Finished finished ->
                                text.append(finished.text()).append(finished.stopReason());
                            case TokenEvent.Failed failed -> text.append(failed);
                        }
                    });
            queue.offer(List.of(request));
            run();
            assertThat(text).hasToString(include ? "<stop>.7" : ".7");
        }
    }

    @Test
    void blocksAreFreedBeforeTheClientReceivesItsEnd() {
        submit("a", greedy(1).build());
        loop.step();
        assertThat(events).containsExactly("submit 0", "poll 0");
        assertThat(loop.stats().gpu().used()).isZero();
        assertThat(loop.isIdle())
                .as("the client has not received its event yet")
                .isFalse();
        loop.step();
        assertThat(events).endsWith("a token", "a finished LENGTH");
    }

    @Test
    void aCancellationComesAfterTheTokensBeforeIt() {
        submit("a", greedy(9).build());
        loop.step();
        queue.cancel("a");
        loop.step();
        assertThat(events).containsExactly("submit 0", "poll 0", "a token", "a finished ABORT");
        assertThat(loop.isIdle()).isTrue();
    }
}
