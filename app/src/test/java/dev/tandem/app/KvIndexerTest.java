package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.tandem.bench.SimulatedEngine;
import dev.tandem.bench.SimulatedExecutor;
import dev.tandem.bench.SimulatedRun;
import dev.tandem.bench.Workload;
import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.GoodputTargets;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.KvEvent;
import dev.tandem.engine.kv.KvEventFollower;
import dev.tandem.engine.kv.KvEventSink;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.server.kvevents.KvEventPublisher;
import dev.tandem.server.kvevents.KvEventsConfig;
import java.io.IOException;
import java.net.ConnectException;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * NVIDIA Dynamo's indexer follows the KV events of an hour of virtual time.
 *
 * <p>The indexer comes from the network, so the test is excluded by default; docs/guide/routing.md shows how it runs.
 */
@Tag("clients")
@Timeout(value = 10, unit = TimeUnit.MINUTES)
class KvIndexerTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int SEED = 5;
    private static final int QUERIES = 200;
    /** A token that no prompt has. */
    private static final int UNUSED = 31_999;

    /** More batches than an hour has, so that none is dropped although virtual time is fast. */
    private static final int QUEUE = 2_000_000;

    private static final Map<KvTier, String> INDEXER_NAMES = Map.of(KvTier.GPU, "device", KvTier.HOST, "host_pinned");

    private final HttpClient http = HttpClient.newHttpClient();
    private int indexerPort;

    /**
     * Of a model whose layers have different windows, the indexer reads the layers without one, and ignores the others.
     *
     * @param window of three layers in four; 0 for none
     */
    @ParameterizedTest
    @ValueSource(ints = {0, 256})
    void theIndexerKnowsWhatBothTiersHold(int window) throws IOException, InterruptedException {
        String python = System.getProperty("tandem.clients.dynamo", "");
        assumeFalse(python.isEmpty(), "the property tandem.clients.dynamo is not set");
        indexerPort = freePort();
        int eventPort = freePort();
        KvEventsConfig config = new KvEventsConfig("tcp://*:" + eventPort, Optional.empty(), 1, QUEUE, QUEUE, "");
        KvEventFollower follower = new KvEventFollower();
        Process indexer = start(python, eventPort);
        try (KvEventPublisher publisher =
                new KvEventPublisher(config, Clock.system(), InstantSource.system()).start()) {
            awaitSubscription(publisher);
            simulateAnHour(window, events -> {
                publisher.offer(events);
                follower.offer(events);
            });
            assertThat(publisher.dropped()).isZero();
            Map<KvTier, Set<Long>> expected = follower.hashes(0);
            assertThat(expected.get(KvTier.GPU)).hasSizeGreaterThan(200);
            assertThat(expected.get(KvTier.HOST)).hasSizeGreaterThan(200);
            await(() -> held().equals(expected));
            assertThat(held()).isEqualTo(expected);
            checkQueries(follower);
        } finally {
            indexer.destroy();
            indexer.waitFor();
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    private Process start(String python, int eventPort) throws IOException {
        return new ProcessBuilder(
                        python,
                        "-m",
                        "dynamo.indexer",
                        "--block-size",
                        "16",
                        "--model-name",
                        "m",
                        "--port",
                        Integer.toString(indexerPort),
                        "--workers",
                        "1=tcp://127.0.0.1:" + eventPort)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
    }

    /** Stores a block whose tokens are in no prompt until the indexer has seen it, then clears it. */
    private void awaitSubscription(KvEventPublisher publisher) {
        int[] tokens = new int[16];
        Arrays.fill(tokens, UNUSED);
        KvEvent block =
                new KvEvent.Stored(KvTier.GPU, Optional.empty(), new long[] {1}, OptionalLong.empty(), tokens, 16, "");
        await(() -> {
            publisher.offer(List.of(block));
            return !held().get(KvTier.GPU).isEmpty();
        });
        publisher.offer(List.of(new KvEvent.Cleared()));
        await(() -> held().get(KvTier.GPU).isEmpty());
    }

    /** Asks again until the answer is yes; the test's timeout ends it. Each question waits for the indexer. */
    private static void await(BooleanSupplier question) {
        while (!question.getAsBoolean()) {
            Thread.onSpinWait();
        }
    }

    private void simulateAnHour(int window, KvEventSink sink) throws IOException {
        Path file = Path.of("../docs/results/profiles/h200.txt");
        Profile profile = Profile.parse(Files.readString(file), file.toString());
        Budget budget = new Budget(20_480, 512, 20_480);
        ExecutorLimits limits = ExecutorLimits.builder()
                .vocabulary(32_000)
                .contextTokens(6_400)
                .blockTokens(16)
                .hostBlockTokens(64)
                .gpuBlocks(400)
                .hostBlocks(1000)
                .stagesPrefills(true)
                .maxBatchTokens(20_480)
                .layers(profile.layers())
                .windows(IntStream.range(0, profile.layers())
                        .mapToObj(layer -> layer % 4 == 3 ? 0 : window)
                        .toList())
                .kvBytesPerToken(131_072)
                .overlaps(true)
                .inFlight(64, 1024, false)
                .build();
        EngineConfig config = new EngineConfig(budget, Set.of(), 6_400, Integer.MAX_VALUE, SEED)
                .withPrefixCache(PrefixCacheOptions.on(SEED));
        SimulatedEngine engine =
                SimulatedEngine.of(profile, limits, config, Strategy.GPU_ONLY, false, Strategy.Options.of(budget));
        VirtualClock clock = new VirtualClock();
        SimulatedExecutor executor = new SimulatedExecutor(limits, new CostModel(profile), clock);
        Workload workload = Workload.parse("prefix:500/100/30/8", SEED);
        Duration none = Duration.ZERO;
        new SimulatedRun(config, engine.scheduler().get(), executor, clock, workload, sink)
                .open(new Load(
                        new Arrivals.Poisson(0.25),
                        new LoadWindow.Timed(none, Duration.ofHours(1), none, Duration.ofMinutes(5)),
                        GoodputTargets.NONE,
                        SEED,
                        20));
    }

    /** [tier] the hashes that the indexer says the server holds. */
    private Map<KvTier, Set<Long>> held() {
        Map<KvTier, Set<Long>> held = Map.of(KvTier.GPU, new HashSet<>(), KvTier.HOST, new HashSet<>());
        for (JsonNode event : ask("/dump", "").at("/m:default/events")) {
            for (JsonNode block : event.at("/event/data/stored/blocks")) {
                INDEXER_NAMES.forEach((tier, name) -> {
                    if (event.path("storage_tier").asString().equals(name)) {
                        held.get(tier)
                                .add(block.path("block_hash").bigIntegerValue().longValue());
                    }
                });
            }
        }
        return held;
    }

    private void checkQueries(KvEventFollower follower) {
        Set<List<Integer>> onGpu = tokens(follower, KvTier.GPU);
        Set<List<Integer>> onHost = tokens(follower, KvTier.HOST);
        List<List<Integer>> prefixes = new ArrayList<>(onGpu);
        prefixes.addAll(onHost);
        Collections.shuffle(prefixes, new Random(SEED));
        for (List<Integer> prefix : prefixes.subList(0, QUERIES)) {
            List<Integer> asked = new ArrayList<>(prefix);
            asked.addAll(Collections.nCopies(20, UNUSED));
            int gpu = longest(onGpu, asked);
            int host = longest(onHost, asked);
            JsonNode answer = ask("/query", "{\"model_name\": \"m\", \"token_ids\": " + asked + "}")
                    .at("/instances/1");
            assertThat(answer.path("gpu").asInt()).isEqualTo(gpu);
            assertThat(answer.path("cpu").asInt()).as("the GPU, then the host").isEqualTo(Math.max(gpu, host));
        }
    }

    private static Set<List<Integer>> tokens(KvEventFollower follower, KvTier tier) {
        Set<List<Integer>> tokens = new HashSet<>();
        follower.prefixes(tier, 0).forEach(prefix -> tokens.add(prefix.tokens()));
        return tokens;
    }

    private static int longest(Set<List<Integer>> held, List<Integer> asked) {
        int longest = 0;
        while (longest + 16 <= asked.size() && held.contains(asked.subList(0, longest + 16))) {
            longest += 16;
        }
        return longest;
    }

    private JsonNode ask(String path, String body) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + indexerPort + path))
                .header("Content-Type", "application/json");
        if (!body.isEmpty()) {
            request.POST(HttpRequest.BodyPublishers.ofString(body));
        }
        try {
            return JSON.readTree(http.send(request.build(), HttpResponse.BodyHandlers.ofString())
                    .body());
        } catch (ConnectException e) {
            return JSON.createObjectNode(); // it has not started yet
        } catch (IOException e) {
            throw new IllegalStateException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }
}
