package dev.tandem.server.page;

import dev.tandem.server.http.Exchange;
import dev.tandem.server.http.RequestHead;
import dev.tandem.server.http.Response;
import dev.tandem.server.http.Router;
import dev.tandem.server.openai.ApiErrors;
import java.util.Map;
import java.util.Optional;

/**
 * Serves the page at {@code /}, also while the model loads, and passes all other requests on. The page needs no API
 * key; it asks for one and sends it with its own requests.
 *
 * <p>Owned by: event loops; immutable.
 */
public final class PageRouter implements Router {
    private static final byte[] OFF =
            ApiErrors.body(404, "the page at / is off, because the server was started with --no-ui");
    private static final Map<String, String> ALLOW = Map.of("Allow", "GET, HEAD");

    private final Optional<Page> page;
    private final Router next;

    /**
     * Creates a router.
     *
     * @param page empty where the page is off
     */
    public PageRouter(Optional<Page> page, Router next) {
        this.page = page;
        this.next = next;
    }

    @Override
    public Decision decide(RequestHead head) {
        boolean ofPage = head.path().equals("/") || head.path().startsWith(Page.FOLDER);
        return ofPage ? new Decision.Answer(answer(head)) : next.decide(head);
    }

    private Response answer(RequestHead head) {
        if (page.isEmpty()) {
            return Response.json(404, OFF);
        }
        if (!head.method().equals("GET") && !head.method().equals("HEAD")) {
            byte[] error = ApiErrors.body(405, "the page takes GET and HEAD only");
            return new Response(405, "application/json", error, ALLOW);
        }
        return page.get().answer(head.path(), head.header("if-none-match"), head.header("sec-fetch-site"));
    }

    @Override
    public void serve(Exchange exchange) throws InterruptedException {
        next.serve(exchange);
    }
}
