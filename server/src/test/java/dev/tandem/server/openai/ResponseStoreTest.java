package dev.tandem.server.openai;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.RequestException;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** The memory of kept responses. */
class ResponseStoreTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int LIMIT = 1000;

    private final ResponseStore store = new ResponseStore(LIMIT);

    private static ObjectNode response() {
        return JSON.createObjectNode().put("status", "completed");
    }

    /** A conversation of this many characters and a few more. */
    private static ArrayNode conversation(int size) {
        return JSON.createArrayNode().add("x".repeat(size));
    }

    private ResponseStore.Entry begin(String id, int size) {
        ResponseStore.Entry entry = new ResponseStore.Entry(response(), conversation(size), () -> {});
        store.add(id, entry);
        return entry;
    }

    private void complete(String id, int size) {
        store.end(id, begin(id, 0), response(), conversation(size));
    }

    private void assertDropped(String id) {
        assertThatThrownBy(() -> store.get(id))
                .isInstanceOfSatisfying(
                        RequestException.class,
                        e -> assertThat(e.category()).isEqualTo(RequestException.Category.NOT_FOUND))
                .hasMessageContaining(id)
                .hasMessageContaining("keeps " + LIMIT + " characters")
                .hasMessageContaining("send the whole conversation");
    }

    @Test
    void theResponseThatWasUsedLongestAgoIsDropped() {
        complete("a", 400);
        complete("b", 400);
        assertThat(store.get("a").hasEnded()).isTrue(); // now b is the oldest
        complete("c", 400);
        assertDropped("b");
        assertThat(store.get("a").conversation()).isEqualTo(conversation(400));
        assertThat(store.get("c").conversation()).isEqualTo(conversation(400));
    }

    @Test
    void aResponseInProgressIsNotDropped() {
        ResponseStore.Entry running = begin("running", 900);
        complete("a", 300);
        assertDropped("a");
        assertThat(store.get("running")).isSameAs(running);
        store.end("running", running, response(), conversation(950));
        complete("b", 100);
        assertDropped("running");
        assertThat(store.get("b").hasEnded()).isTrue();
    }

    @Test
    void aResponseThatExceedsTheLimitAloneIsNotKept() {
        complete("large", LIMIT);
        assertDropped("large");
        complete("small", 10);
        assertThat(store.get("small").hasEnded()).isTrue();
    }
}
