package dev.tandem.server.kvevents;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class KvEventsConfigTest {
    @Test
    void defaultsAreThoseOfVllm() {
        assertThat(KvEventsConfig.parse("{\"enable_kv_cache_events\": true}"))
                .contains(new KvEventsConfig("tcp://*:5557", Optional.empty(), 10_000, 100_000, 100_000, ""));
    }

    @Test
    void everyFieldIsRead() {
        assertThat(KvEventsConfig.parse(
                        "{\"publisher\": \"zmq\", \"endpoint\": \"tcp://router:1\", \"replay_endpoint\":"
                                + " \"tcp://*:2\", \"buffer_steps\": 3, \"hwm\": 4,"
                                + " \"max_queue_size\": 5, \"topic\": \"t\"}"))
                .contains(new KvEventsConfig("tcp://router:1", Optional.of("tcp://*:2"), 3, 4, 5, "t"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{}",
                "{\"enable_kv_cache_events\": false}",
                "{\"publisher\": \"null\"}",
                "{\"enable_kv_cache_events\": false, \"publisher\": \"null\"}"
            })
    void eventsAreOffUnlessAskedFor(String json) {
        assertThat(KvEventsConfig.parse(json)).isEmpty();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "[1]|[1] is not a JSON object",
                "{]|is not JSON",
                "{\"hmw\": 1}|unknown field \"hmw\"; it may have enable_kv_cache_events, publisher",
                "{\"hwm\": 0}|\"hwm\": 0; it must be a whole number from 1 to 2147483647",
                "{\"buffer_steps\": \"9\"}|\"buffer_steps\": \"9\"; it must be a whole number",
                "{\"max_queue_size\": 1.5}|\"max_queue_size\": 1.5; it must be a whole number",
                "{\"topic\": 1}|\"topic\": 1; it must be a string",
                "{\"endpoint\": \"ipc://x\"}|\"endpoint\": \"ipc://x\"; it must be tcp://HOST:PORT",
                "{\"replay_endpoint\": \"tcp://x\"}|\"replay_endpoint\": \"tcp://x\"; it must be tcp://HOST:PORT",
                "{\"publisher\": \"kafka\"}|\"publisher\": \"kafka\"; it must be \"zmq\" or \"null\"",
                "{\"enable_kv_cache_events\": 1}|\"enable_kv_cache_events\": 1; it must be true or false",
                "{\"enable_kv_cache_events\": false, \"publisher\": \"zmq\"}|contradict each other; leave one out"
            })
    void wrongValuesAreNamed(String json, String message) {
        assertThatThrownBy(() -> KvEventsConfig.parse(json))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--kv-events-config")
                .hasMessageContaining(message);
    }
}
