package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMsg;

/** {@code serve --kv-events-config}, with a subscriber that the server connects to. */
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class KvEventsServeTest {
    private static final String KEY = "a-key-that-nobody-may-read";

    @TempDir
    private Path folder;

    @Test
    void aSubscriberLearnsOfAPromptAndNotOfTheKey() throws IOException, InterruptedException {
        Path model = DummyModel.write(folder.resolve("dummy"));
        try (ZContext context = new ZContext()) {
            ZMQ.Socket subscriber = context.createSocket(SocketType.SUB);
            subscriber.bind("tcp://127.0.0.1:*");
            subscriber.subscribe("");
            subscriber.setReceiveTimeOut(100);
            String config = "{\"enable_kv_cache_events\": true, \"topic\": \"here\", \"endpoint\": \""
                    + subscriber.getLastEndpoint() + "\"}";
            try (LocalServer server = new LocalServer(
                    model.toString(),
                    "--load-format",
                    "dummy",
                    "--cache-salt-from",
                    "api-key",
                    "--api-key",
                    KEY,
                    "--kv-events-config",
                    config)) {
                ZMsg message = null;
                // the server may not have connected yet; it publishes nothing about a prompt that it knows
                for (int i = 1; message == null; i++) {
                    server.post("/v1/completions", completion(i), "Authorization", "Bearer " + KEY);
                    message = ZMsg.recvMsg(subscriber);
                }
                assertThat(message.popString()).isEqualTo("here");
                assertThat(message.pop().getData()).hasSize(Long.BYTES);
                String payload = new String(message.pop().getData(), StandardCharsets.ISO_8859_1);
                assertThat(payload)
                        .contains("BlockStored", "medium", "GPU", "extra_keys")
                        .doesNotContain(KEY);
                assertThat(server.get("/metrics").body())
                        .containsPattern("tandem:kv_event_batches_total\\{.*outcome=\"dropped\"} 0");
            }
        }
    }

    private static String completion(int first) {
        String tokens = (first + " ").repeat(40).strip().replace(" ", ", ");
        return "{\"prompt\": [" + tokens + "], \"max_tokens\": 1}";
    }

    @Test
    void eventsWithoutACacheAreRefused() {
        ServeCommand command = (ServeCommand) Main.command()
                .parseArgs("serve", "--no-enable-prefix-caching", "--kv-events-config", "{\"publisher\": \"zmq\"}")
                .subcommand()
                .commandSpec()
                .userObject();
        assertThatThrownBy(command::start)
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--no-enable-prefix-caching turns it off");
    }
}
