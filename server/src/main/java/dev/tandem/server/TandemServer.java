package dev.tandem.server;

import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.server.http.AccessLog;
import dev.tandem.server.http.HttpLimits;
import dev.tandem.server.http.HttpServer;
import dev.tandem.server.http.OriginPolicy;
import dev.tandem.server.http.Tls;
import dev.tandem.server.metrics.EngineHistory;
import dev.tandem.server.metrics.ServerMetrics;
import dev.tandem.server.openai.ApiErrors;
import dev.tandem.server.openai.ApiKeys;
import dev.tandem.server.openai.OpenAiApi;
import dev.tandem.server.openai.ServedModel;
import dev.tandem.server.openai.TokenizerPool;
import dev.tandem.server.page.Page;
import dev.tandem.server.page.PageRouter;
import dev.tandem.server.trace.RequestTracing;
import java.time.Duration;
import java.time.InstantSource;
import java.util.Optional;

/**
 * The HTTP server of one model. It listens on one port and answers 503 until the model is loaded. Closing it closes the
 * connections; the caller closes the engine.
 *
 * <p>Owned by: the thread that made it.
 */
public final class TandemServer implements AutoCloseable {
    private final LoadingRouter router = new LoadingRouter();
    private final HttpServer http;
    private Optional<TokenizerPool> tokenizers = Optional.empty();

    /**
     * Starts to listen; requests are answered with 503 until {@link #serve}.
     *
     * @param tls empty for plain HTTP
     * @param page what is served at {@code /}; empty for nothing
     * @param log gets every request when it ends
     * @throws dev.tandem.server.http.ListenException when it cannot listen on this address and port
     */
    public TandemServer(
            String host,
            int port,
            HttpLimits limits,
            OriginPolicy origins,
            Optional<Tls> tls,
            Optional<Page> page,
            AccessLog log) {
        this.http =
                new HttpServer(host, port, limits, origins, tls, new PageRouter(page, router), ApiErrors::body, log);
    }

    /**
     * Serves the model from now on.
     *
     * @param keys of which clients must send one
     * @param decisions the scheduler's last decisions, shown by /debug/steps
     * @param metrics already listening to the engine
     * @param history already listening to the engine
     * @param tracing already listening to the engine; empty without traces
     */
    public void serve(
            ApiKeys keys,
            ServedModel model,
            DecisionLog decisions,
            ServerMetrics metrics,
            EngineHistory history,
            Optional<RequestTracing> tracing) {
        metrics.watch(
                model.engine()::stats,
                model.engine()::waiting,
                model.engine().limits().blockTokens());
        TokenizerPool pool = TokenizerPool.of(model.engine().config().maxQueuedRequests());
        tokenizers = Optional.of(pool);
        router.loaded(new OpenAiApi(
                model, pool, decisions, metrics, history, tracing, keys, Version.text(), InstantSource.system()));
    }

    /**
     * Says how far loading is, which answers of 503 tell until {@link #serve}.
     *
     * @param work names what is done; anybody may read it, also without an API key
     * @param done bytes or items so far
     * @param total bytes or items of the work; 0 when unknown
     */
    public void loading(String work, long done, long total) {
        router.loading(work, done, total);
    }

    public int port() {
        return http.port();
    }

    /** Waits until every request in progress is answered; returns false when the limit passes first. */
    public boolean awaitAnswers(Duration limit) throws InterruptedException {
        return router.awaitAnswers(limit);
    }

    @Override
    public void close() {
        http.close();
        tokenizers.ifPresent(TokenizerPool::close);
    }
}
