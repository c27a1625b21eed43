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

/**
 * One port, and one model behind it once that is loaded. Closing it closes the connections; the engine stays the
 * caller's.
 */
public final class TandemServer implements AutoCloseable {
    private static final String VERSION = "0.1.0";

    private final LoadingRouter router = new LoadingRouter();
    private final HttpServer http;

    /**
     * Listens from now on, and answers 503 until {@link #serve}.
     *
     * @throws dev.tandem.server.http.ListenException when the port cannot be had
     */
    public TandemServer(String host, int port, HttpLimits limits) {
        this.http = new HttpServer(host, port, limits, router, ApiErrors::body);
    }

    /**
     * Serves the model from now on.
     *
     * @param decisions of the engine's scheduler, for /debug/steps
     * @param metrics already listening to the engine
     */
    public void serve(Optional<String> apiKey, ServedModel model, DecisionLog decisions, ServerMetrics metrics) {
        metrics.watch(
                model.engine()::stats, model.engine()::waiting, model.engine().limits().blockTokens());
        router.loaded(new OpenAiApi(model, decisions, metrics, apiKey, VERSION, InstantSource.system()));
    }

    public int port() {
        return http.port();
    }

    /** Waits until every request under way has its whole answer; false when some do not after the time. */
    public boolean awaitAnswers(Duration limit) throws InterruptedException {
        return router.awaitAnswers(limit);
    }

    @Override
    public void close() {
        http.close();
    }
}
