package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** {@code ps} and {@code top} beside a server. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class EngineCommandsTest {
    private static final JsonNode ENGINE = new ObjectMapper().readTree("""
            {"model": "m\\u001b[2J", "health": {"status": "degraded", "reason": "GPU only"},
             "kv": {"gpu": {"blocks": 40, "used": 20}, "host": {"blocks": 0, "used": 0}},
             "per_second": {"output": [3, 80], "host": [1, 30], "prompt": [0, 0]},
             "time_to_first_token_ms": {"count": 2, "p50": 12.5, "p99": 2500},
             "inter_token_latency_ms": {"count": 0},
             "strategy": {"name": "adaptive", "guarded": true, "offloading": true, "reason": "because",
                          "expected_gain": 0.112},
             "requests": {"live": 1, "waiting": 2, "running": 1, "swapped": 0, "in_flight": 0, "list": [
                {"id": "cmpl-0123456789012345678901234", "state": "in_flight", "why": "decodes", "prompt_tokens": 11,
                 "output_tokens": 5, "max_tokens": 231, "host_tokens": 4, "blocks": 1, "age_ms": 1500}]},
             "steps": [{"shape": "asymmetric", "ms": 117.2, "cpu_attention_ms": 7.8, "prefill": 0, "decode": 8,
                        "host": 3}]}""");

    @Test
    void theSummaryHasBothTiers() {
        assertThat(EngineText.summary(ENGINE))
                .containsExactly(
                        "m\\u001b[2J, degraded: GPU only",
                        "strategy     adaptive, offloading",
                        "reason       because",
                        "gain         expected +11.2 %, measured not known, best possible not known",
                        "GPU KV       [###############...............] 20 / 40 blocks",
                        "host KV      none",
                        "requests     1 running, 2 waiting, 0 swapped out, 0 in flight",
                        "tokens/s     80 output, 30 on the host, 0 of prompts",
                        "first token  p50 12.5 ms, p99 2.5 s",
                        "per token    none yet",
                        "last step    asymmetric 117.2 ms, 7.8 ms of CPU attention; 0 prompt tokens, 8 decoded, 3 of"
                                + " them on the host");
    }

    @Test
    void everyRequestHasALine() {
        assertThat(EngineText.requests(ENGINE))
                .containsExactly(
                        "m\\u001b[2J, degraded: 1 live, 2 waiting",
                        "REQUEST                 WHERE                TOKENS    HOST  KV BLOCKS       AGE  WHY",
                        "cmpl-0123456789012345…  in flight          11+5/231       4          1     1.5 s  decodes");
    }

    @Test
    void aRunningServerIsShownToThoseWithItsKey() throws Exception {
        try (LocalServer server = new LocalServer("--api-key", "secret", "--strategy", "gpu-only")) {
            String body = "{\"prompt\": \"Hi\", \"max_tokens\": 5, \"ignore_eos\": true}";
            assertThat(server.post("/v1/completions", body, "Authorization", "Bearer secret")
                            .statusCode())
                    .isEqualTo(200);
            CommandRun refused = CommandRun.of("ps", "--base-url", server.address, "--api-key", "wrong");
            assertThat(refused.status()).isEqualTo(ExitCode.CANNOT_START);
            assertThat(refused.errors()).contains("--api-key");
            CommandRun ps = CommandRun.of("ps", "--base-url", server.address, "--api-key", "secret");
            assertThat(ps.out()).isEqualTo("SmolLM2-135M-Instruct, ok: 0 live, 0 waiting\n");
            CommandRun top =
                    CommandRun.of("top", "--base-url", server.address + "/", "--api-key", "secret", "--count", "2");
            assertThat(top.status()).isZero();
            assertThat(top.out())
                    .contains("strategy     gpu-only\n", "last step    gpu-only ")
                    .doesNotContain("\u001b");
            assertThat(top.out().split("GPU KV")).hasSize(3);
        }
    }

    @Test
    void errorsNameTheRemedy() {
        assertThat(CommandRun.of("ps", "--base-url", "http://127.0.0.1:1").errors())
                .contains("no server", "tandem serve");
        assertThat(CommandRun.of("ps", "--base-url", "no address").errors())
                .contains("--base-url no address", "http://127");
        assertThat(CommandRun.of("top", "--interval", "0").errors()).contains("--interval 0");
        assertThat(CommandRun.of("top", "--count", "-1").errors()).contains("--count -1");
    }
}
