package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.server.openai.CacheSaltFrom;
import java.io.IOException;
import java.util.Arrays;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** What clients see of the prefix cache. Blocks have 4 tokens, and the last token is computed in any case. */
class PrefixCacheTest {
    private static final int[] PROMPT = IntStream.rangeClosed(1, 14).toArray();

    private long sequences;

    /** @param fields further fields, each with a comma before it */
    private RawClient.Answer complete(RunningServer server, String key, String fields) throws IOException {
        server.contents.prompt(sequences++, PROMPT, key + fields);
        String tokens = Arrays.stream(PROMPT).mapToObj(Integer::toString).collect(Collectors.joining(", "));
        String body = "{\"prompt\": [" + tokens + "], \"max_tokens\": 2" + fields + "}";
        String[] headers = key.isEmpty() ? new String[0] : new String[] {"Authorization: Bearer " + key};
        try (RawClient client = server.connect()) {
            client.post("/v1/completions", body, headers);
            return client.read();
        }
    }

    private static String cached(int tokens) {
        return "\"prompt_tokens_details\":{\"cached_tokens\":" + tokens + "}";
    }

    @Test
    void usageAndMetricsCountCachedTokens() throws IOException {
        try (RunningServer server = new RunningServer(CacheSaltFrom.NONE)) {
            assertThat(complete(server, "", "").body()).contains(cached(0));
            assertThat(complete(server, "", "").body()).contains(cached(12));
            String metrics = server.get("/metrics").body();
            for (String name : new String[] {"vllm:prefix_cache", "vllm:gpu_prefix_cache"}) {
                assertThat(metrics).contains(name + "_queries_total{engine=\"0\",model_name=\"fake\"} 28.0");
                assertThat(metrics).contains(name + "_hits_total{engine=\"0\",model_name=\"fake\"} 12.0");
            }
            assertThat(metrics).contains("vllm:prompt_tokens_cached_total{engine=\"0\",model_name=\"fake\"} 12.0");
            String bySource = "vllm:prompt_tokens_by_source_total{engine=\"0\",model_name=\"fake\",source=\"";
            assertThat(metrics)
                    .contains(bySource + "local_compute\"} 16.0")
                    .contains(bySource + "local_cache_hit\"} 12.0")
                    .contains(bySource + "external_kv_transfer\"} 0.0");
            assertThat(metrics)
                    .as("there is no host tier to ask")
                    .contains("vllm:external_prefix_cache_queries_total{engine=\"0\",model_name=\"fake\"} 0.0");
        }
    }

    @Test
    void requestsOfOtherSaltsComputeTheirPrompts() throws IOException {
        try (RunningServer server = new RunningServer(CacheSaltFrom.NONE)) {
            complete(server, "", "");
            String salt = ", \"cache_salt\": \"a\"";
            assertThat(complete(server, "", salt).body()).contains(cached(0));
            assertThat(complete(server, "", salt).body()).contains(cached(12));
            assertThat(complete(server, "", ", \"cache_salt\": \"\"").status()).isEqualTo(400);
        }
    }

    @Test
    void clientsWithOtherKeysShareNothingIfKeysAreSalts() throws IOException {
        try (RunningServer server = new RunningServer(CacheSaltFrom.API_KEY)) {
            String salt = ", \"cache_salt\": \"a\"";
            complete(server, "one", salt);
            assertThat(complete(server, "two", salt).body()).contains(cached(0));
            assertThat(complete(server, "one", salt).body()).contains(cached(12));
            assertThat(complete(server, "one", "").body()).contains(cached(0));
        }
    }

    @Test
    void aResetEmptiesTheCache() throws IOException {
        try (RunningServer server = new RunningServer(CacheSaltFrom.NONE)) {
            complete(server, "", "");
            try (RawClient client = server.connect()) {
                client.send("POST /reset_prefix_cache HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
                assertThat(client.read().status()).isEqualTo(200);
            }
            assertThat(complete(server, "", "").body()).contains(cached(0));
        }
    }
}
