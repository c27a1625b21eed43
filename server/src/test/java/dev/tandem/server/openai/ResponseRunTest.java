package dev.tandem.server.openai;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.server.ScriptedVocabulary;
import dev.tandem.server.metrics.ServerMetrics;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

@Timeout(value = 1, unit = TimeUnit.MINUTES)
class ResponseRunTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int CONTEXT = 64;

    @Test
    void aBackgroundResponseThatFailsInsideIsStoredAsFailed() {
        Budget budget = new Budget(16, 2, 16);
        ResponseStore store = new ResponseStore(ResponseStore.DEFAULT_LIMIT);
        try (Engine engine = new Engine(
                        new EngineConfig(budget, Set.of(), CONTEXT, 2, 1),
                        PolicyScheduler.of(new GpuOnly(budget, Preemption.RECOMPUTE)),
                        new ContentExecutor(2, 64, 0, 16, CONTEXT, Readiness.allEarly()),
                        Clock.system(),
                        new ServerMetrics("fake"))
                .start()) {
            ServedModel model = new ServedModel(
                    "fake",
                    engine,
                    ScriptedVocabulary.tokenizer(),
                    Optional.empty(),
                    ServedModel.SamplingDefaults.NEUTRAL,
                    GrammarCompiler.unavailable("no grammars"),
                    CacheSaltFrom.NONE);
            ResponseRun run = failing(model, store);
            assertThatThrownBy(run::background).isInstanceOf(NullPointerException.class);
        }
        JsonNode stored = store.get("resp_1").response();
        assertThat(stored.path("status").asString()).isEqualTo("failed");
        assertThat(stored.at("/error/message").asString()).isEqualTo("the server failed; its log has the reason");
    }

    /** A response that cannot be written, because its request has no prompt. */
    private static ResponseRun failing(ServedModel model, ResponseStore store) {
        AnswerRequest answer = new AnswerRequest(
                new int[] {1},
                SamplingParams.builder().maxTokens(OptionalInt.of(2)).build(),
                Optional.empty(),
                AnswerReading.TEXT,
                true,
                0,
                LatencyTargets.NONE,
                PrefixCaching.SHARED,
                new Deadline(0, 0));
        AnswerRequest broken = new AnswerRequest(
                null,
                answer.sampling(),
                Optional.empty(),
                AnswerReading.TEXT,
                true,
                0,
                LatencyTargets.NONE,
                PrefixCaching.SHARED,
                answer.deadline());
        return new ResponseRun(
                model,
                new ResponseObject(
                        "resp_1",
                        0,
                        "fake",
                        broken,
                        new ResponseObject.Echo("", "", 0, true, true, JSON.createObjectNode())),
                RequestGrammar.compile(model.grammars(), Optional.empty()),
                Generation.start(
                        model.engine(),
                        1,
                        answer.deadline(),
                        Optional.empty(),
                        (index, sink) -> answer.choice(model, "resp_1", answer.sampling(), sink)),
                JSON.createArrayNode(),
                Optional.of(store));
    }
}
