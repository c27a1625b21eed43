package dev.tandem.app.chat;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * Waits while a server loads its model. Says so once for each tenth of the work, as lines of a terminal stay.
 *
 * <p>Owned by: the thread that waits.
 */
final class LoadingWait {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Between tries; shorter than the server's Retry-After, because somebody watches. */
    static final Duration PAUSE = Duration.ofSeconds(1);

    private final Duration pause;
    private final Consumer<String> say;
    private String said = "";

    /** @param say receives a line when there is something new to say */
    LoadingWait(Duration pause, Consumer<String> say) {
        this.pause = pause;
        this.say = say;
    }

    /**
     * Whether an answer says that the model is still loading; then it has waited, and the request is to be sent again.
     * Any other 503, such as that of too many connections, is none of these.
     *
     * @param stop ends the wait early
     */
    boolean waited(int status, String body, CountDownLatch stop) throws InterruptedException {
        if (status != 503) {
            return false;
        }
        JsonNode state;
        try {
            state = JSON.readTree(body).path("error").path("loading");
        } catch (JacksonException e) {
            return false; // an error of a proxy
        }
        if (!state.isObject()) {
            return false;
        }
        String text = text(state);
        if (!text.equals(said)) {
            said = text;
            say.accept(text);
        }
        stop.await(pause.toMillis(), TimeUnit.MILLISECONDS);
        return true;
    }

    private static String text(JsonNode state) {
        String work = state.path("work").asString("");
        String percent =
                state.has("progress") ? 10 * (int) (10 * state.path("progress").asDouble()) + " %" : "";
        String known = work + (work.isEmpty() || percent.isEmpty() ? "" : ", ") + percent;
        return "the model is loading" + (known.isEmpty() ? "" : ": " + known);
    }
}
