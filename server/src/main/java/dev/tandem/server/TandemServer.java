package dev.tandem.server;

import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.server.http.HttpLimits;
import dev.tandem.server.http.HttpServer;
import dev.tandem.server.metrics.ServerMetrics;
import dev.tandem.server.openai.ApiErrors;
import dev.tandem.server.openai.OpenAiApi;
import dev.tandem.server.openai.ServedModel;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Optional;

/** One model behind one port. Closing it closes the connections; the engine stays the caller's. */
public final class TandemServer implements AutoCloseable {
    private static final String VERSION = "0.1.0";

    private final HttpServer http;
    private final ServedModel model;

    /**
     * @param decisions of the engine's scheduler, for /debug/steps
     * @param metrics already listening to the engine
     * @throws IllegalArgumentException when the port cannot be had
     */
    public TandemServer(
            String host,
            int port,
            HttpLimits limits,
            Optional<String> apiKey,
            ServedModel model,
            DecisionLog decisions,
            ServerMetrics metrics) {
        this.model = model;
        metrics.watch(
                model.engine()::stats, model.engine()::waiting, model.engine().limits().blockTokens());
        OpenAiApi api = new OpenAiApi(model, decisions, metrics, apiKey, VERSION, InstantSource.system());
        this.http = new HttpServer(host, port, limits, api, ApiErrors::body);
    }

    public int port() {
        return http.port();
    }

    /** Refuses new requests and waits for those under way; false when some did not end in time. */
    public boolean drain(Duration limit) throws InterruptedException {
        return model.engine().drain(limit);
    }

    @Override
    public void close() {
        http.close();
    }
}
