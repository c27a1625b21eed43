package dev.tandem.server.openai;

import dev.tandem.server.http.Exchange;
import java.util.Optional;

/**
 * A path of the API and what serves it.
 *
 * @param path may have one parameter, {@code {id}}
 * @param summary what it does, for the API's description
 * @param fields the endpoint whose fields its body has; empty for GET and for POST without a body
 * @param open whether it is served without an API key, because monitoring tools send none
 * @param quick whether the event loop serves it, so that health checks are answered under full load
 * @param errors how it writes errors
 */
record Route(
        String method,
        String path,
        String summary,
        Optional<ApiFields.Endpoint> fields,
        boolean open,
        boolean quick,
        ErrorFormat errors,
        Handler handler) {
    /** Stands for the path's parameter. */
    static final String PARAMETER = "{id}";

    /** Serves one request. */
    interface Handler {
        /**
         * Answers a request.
         *
         * @param id value of the path's parameter; empty when it has none
         */
        void serve(Exchange exchange, String id) throws InterruptedException;
    }

    /** Serves one request of a path without a parameter. */
    interface FixedHandler {
        void serve(Exchange exchange) throws InterruptedException;
    }

    static Route post(ApiFields.Endpoint fields, String summary, FixedHandler handler) {
        return new Route(
                "POST",
                fields.path,
                summary,
                Optional.of(fields),
                false,
                false,
                ErrorFormat.OPENAI,
                (exchange, id) -> handler.serve(exchange));
    }

    static Route post(String path, String summary, Handler handler) {
        return new Route("POST", path, summary, Optional.empty(), false, false, ErrorFormat.OPENAI, handler);
    }

    static Route get(String path, String summary, FixedHandler handler) {
        return get(path, summary, (exchange, id) -> handler.serve(exchange));
    }

    static Route get(String path, String summary, Handler handler) {
        return new Route("GET", path, summary, Optional.empty(), false, false, ErrorFormat.OPENAI, handler);
    }

    Route withoutKey() {
        return new Route(method, path, summary, fields, true, quick, errors, handler);
    }

    Route onEventLoop() {
        return new Route(method, path, summary, fields, open, true, errors, handler);
    }

    Route errors(ErrorFormat format) {
        return new Route(method, path, summary, fields, open, quick, format, handler);
    }

    boolean accepts(String wanted) {
        return wanted.equals(method) || wanted.equals("HEAD") && method.equals("GET");
    }

    String methods() {
        return method.equals("GET") ? "GET, HEAD, OPTIONS" : method + ", OPTIONS";
    }
}
