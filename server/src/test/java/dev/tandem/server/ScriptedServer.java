package dev.tandem.server;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.server.http.AccessLog;
import dev.tandem.server.metrics.EngineHistory;
import dev.tandem.server.metrics.ServerMetrics;
import dev.tandem.server.openai.ApiKeys;
import dev.tandem.server.openai.CacheSaltFrom;
import dev.tandem.server.openai.ServedModel;
import dev.tandem.server.page.Page;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.answer.ToolCallFormat;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.UnaryOperator;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** The real server on a free port, with a model that answers by a script. */
public final class ScriptedServer implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();

    final ScriptedModel scripted;
    final FakeGrammars grammars = new FakeGrammars();
    final ServedModel model;
    private final Engine engine;
    private final TandemServer server;

    ScriptedServer(String template, UnaryOperator<String> script) {
        this(template, script, ApiKeys.NONE);
    }

    ScriptedServer(String template, UnaryOperator<String> script, ApiKeys keys) {
        this(template, script, keys, Optional.empty());
    }

    /** @param calls how the model writes tool calls; empty for what the template shows */
    ScriptedServer(String template, UnaryOperator<String> script, ApiKeys keys, Optional<ToolCallFormat> calls) {
        scripted = new ScriptedModel(script);
        Budget budget = new Budget(256, 8, 256);
        ServerMetrics metrics = new ServerMetrics("scripted");
        EngineHistory history = new EngineHistory(Clock.system(), "gpu-only");
        engine = new Engine(
                        new EngineConfig(budget, Set.of(ScriptedModel.END), ScriptedModel.CONTEXT, 8, 1),
                        PolicyScheduler.of(new GpuOnly(budget, Preemption.RECOMPUTE)),
                        scripted,
                        Clock.system(),
                        metrics.and(history))
                .start();
        server = new TandemServer(
                "127.0.0.1",
                0,
                RunningServer.LIMITS,
                RunningServer.ORIGINS,
                Optional.empty(),
                Optional.of(Page.load()),
                AccessLog.OFF);
        ServedModel shown = new ServedModel(
                "scripted",
                engine,
                scripted,
                Optional.of(new ChatTemplate(template, "", "")),
                ServedModel.SamplingDefaults.NEUTRAL,
                grammars,
                CacheSaltFrom.NONE);
        model = calls.map(shown::withCalls).orElse(shown);
        server.serve(keys, model, new DecisionLog(16), metrics, history, Optional.empty());
    }

    /** A model that answers the clients of {@code SpringAi.java}. */
    public static ScriptedServer ofClients() {
        return new ScriptedServer(ClientsTest.TEMPLATE, ClientsTest::answer);
    }

    /** A model that answers LangChain4j's TCK. */
    public static ScriptedServer ofTck() {
        return new ScriptedServer(ClientsTest.TEMPLATE, ClientsTest::tck);
    }

    /** A model that answers each prompt by a script. */
    public static ScriptedServer of(UnaryOperator<String> script) {
        return new ScriptedServer(ClientsTest.TEMPLATE, script);
    }

    /** The model, as the APIs serve it. */
    public ServedModel model() {
        return model;
    }

    /** Sets what runs on the engine thread before each step. */
    public void beforeStep(Runnable hook) {
        scripted.beforeStep = hook;
    }

    /** What the last grammar was made of. */
    public String lastGrammar() {
        return grammars.compiled.getLast().text();
    }

    int port() {
        return server.port();
    }

    RawClient.Answer post(String path, String json) throws IOException {
        try (RawClient client = new RawClient(server.port())) {
            client.post(path, json);
            return client.read();
        }
    }

    /** A user's message with further fields. */
    RawClient.Answer ask(String fields) throws IOException {
        return post(
                "/v1/chat/completions",
                "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]" + (fields.isEmpty() ? "" : ", " + fields)
                        + "}");
    }

    /** The first choice of a whole answer. */
    JsonNode choice(String fields) throws IOException {
        RawClient.Answer answer = ask(fields);
        if (answer.status() != 200) {
            throw new AssertionError(answer.body());
        }
        return answer.json().at("/choices/0");
    }

    /** The chunks of a stream. */
    List<JsonNode> chunks(String fields) throws IOException {
        String body = ask("\"stream\": true" + (fields.isEmpty() ? "" : ", " + fields))
                .body();
        List<JsonNode> chunks = new ArrayList<>();
        for (String line : body.split("\n\n")) {
            String data = line.substring("data: ".length());
            if (!data.equals("[DONE]")) {
                chunks.add(JSON.readTree(data));
            }
        }
        return chunks;
    }

    @Override
    public void close() {
        engine.close();
        server.close();
    }
}
