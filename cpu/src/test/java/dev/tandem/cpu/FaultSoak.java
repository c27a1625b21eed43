package dev.tandem.cpu;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.ChangingStrategies;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.Shuffling;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.UntilHostLost;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.config.DataType;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import tools.jackson.databind.ObjectMapper;

/**
 * Sends random and malformed requests with injected faults to the real engine on the CPU executor. It runs in rounds,
 * each with a random model, strategy, pools and budget, with and without a prefix cache.
 *
 * <p>What must hold: a request without a fault gets the tokens, text and finish reason that it gets alone. Every
 * request ends exactly once. Before each step, every block is in one state and holds the tokens of its sequences. After
 * each round the pools are empty and the engine's threads have ended.
 *
 * <p>{@code tools/soak.sh cpu SECONDS SEED} runs it, and {@link FaultSoakTest} runs some seconds of it. Owned by: the
 * thread that runs it.
 */
final class FaultSoak {
    /** Texts of each model. */
    private static final int TEXTS = 48;
    /** Texts of a round, so few that requests hit the prefixes of others. */
    private static final int TEXTS_PER_ROUND = 16;

    private static final int CLIENTS = 60;
    /** Requests at a time; more than any budget lets run, so that some wait. */
    private static final int MAX_CONCURRENT = 20;

    private static final int MAX_PROMPT = 60;
    private static final int MAX_OUTPUT = 32;
    private static final int CONTEXT = 96;
    private static final int BLOCK = 16;
    private static final int END_TOKEN = 2;
    /** Five times the rounds that ten seeds needed. */
    private static final int MAX_ROUNDS_TO_SEE_ALL = 150;
    /** The limit for waits that take milliseconds unless something hangs. */
    private static final int HANG_SECONDS = 60;

    /** The fault injected into one request. */
    enum Fault {
        /** None: other requests' faults must not affect this one. */
        NONE,
        SINK_THROWS,
        SINK_THROWS_AN_ERROR,
        DECODER_THROWS,
        DECODER_THROWS_AT_THE_END,
        LISTENER_THROWS,
        NOT_A_NUMBER,
        CANCELLED_BY_ANOTHER_THREAD,
        CANCELLED_IN_THE_SINK,
        DUPLICATE_ID,
        MALFORMED
    }

    /** Models by what a sequence holds of its KV; prompts and outputs are longer than the windows. */
    enum Model {
        WHOLE(TestModels::deep),
        WINDOW(TestModels::deepWithWindow),
        GROUPS(TestModels::deepWithGroups);

        private final Maker maker;

        Model(Maker maker) {
            this.maker = maker;
        }

        private interface Maker {
            CpuExecutor make(DataType type, int gpuBlocks, int hostBlocks, Readiness readiness);
        }

        CpuExecutor executor(int gpuBlocks, int hostBlocks, Readiness readiness) {
            return maker.make(DataType.BFLOAT16, gpuBlocks, hostBlocks, readiness);
        }
    }

    /** What a prefix cache does for some tokens; a soak must see each with each model. */
    enum PrefixUsed {
        HIT_ON_GPU,
        HIT_ON_HOST,
        COPIED,
        DEMOTED
    }

    /** Checks the KV cache before each draft, on the engine thread. */
    private record Checking(Policy policy) implements Policy {
        @Override
        public StepDraft draft(SchedulerState state, Decision why) {
            state.checkIntegrity();
            return policy.draft(state, why);
        }

        @Override
        public void completed(StepDraft draft, double achieved) {
            policy.completed(draft, achieved);
        }

        @Override
        public void hostLost(String why) {
            policy.hostLost(why);
        }
    }

    /**
     * A request and its answer when it runs alone.
     *
     * @param sampling greedy, or with a seed
     */
    private record Text(
            int[] prompt, SamplingParams sampling, List<Integer> tokens, String text, FinishReason reason) {}

    /** A strong reference: without one the logger, and the level set on it, may be garbage collected. */
    private static final Logger LOG = Logger.getLogger("dev.tandem");

    private final long seed;
    private final Map<Fault, Long> injected = new EnumMap<>(Fault.class);
    private final Map<FaultyExecutor.Fault, Long> executorFaults = new EnumMap<>(FaultyExecutor.Fault.class);
    private final Map<FaultyExecutor.Seen, Long> seen = new EnumMap<>(FaultyExecutor.Seen.class);
    private final Map<String, Long> ends = new LinkedHashMap<>();
    private final List<String> problems = new ArrayList<>();
    private final Map<Model, Map<PrefixUsed, Long>> prefixes = new EnumMap<>(Model.class);
    private final Map<Model, List<Text>> texts = new EnumMap<>(Model.class);
    private long rounds;
    private long requests;
    private long tokens;
    private long compared;

    FaultSoak(long seed) {
        this.seed = seed;
    }

    /**
     * Arguments: seconds, seed, and optionally a file and a round. The summary is appended to the file as a line of
     * JSON. With a round, only that round runs, again and again, and its summary is not appended.
     */
    public static void main(String[] args) throws Exception {
        FaultSoak soak = new FaultSoak(Long.parseLong(args[1]));
        System.out.println("soak of the CPU executor, seed " + args[1] + ", " + args[0] + " s");
        List<String> problems = args.length > 3
                ? soak.repeat(Integer.parseInt(args[3]), Long.parseLong(args[0]))
                : soak.run(Long.parseLong(args[0]));
        String line = soak.summary();
        System.out.println(line);
        problems.forEach(System.out::println);
        if (args.length == 3) {
            Files.writeString(Path.of(args[2]), line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
        System.exit(problems.isEmpty() ? 0 : 1);
    }

    /** Runs rounds until the time is over and everything was seen; returns what went wrong. */
    List<String> run(long seconds) throws InterruptedException {
        LOG.setLevel(Level.OFF); // else the engine logs a stack trace for each of thousands of injected faults
        try {
            return rounds(seconds);
        } finally {
            LOG.setLevel(null);
        }
    }

    /** Runs one round again and again until the time is over; returns what went wrong. */
    List<String> repeat(int round, long seconds) throws InterruptedException {
        LOG.setLevel(Level.OFF);
        try {
            Clock clock = Clock.system();
            long end = clock.nanos() + TimeUnit.SECONDS.toNanos(seconds);
            SplittableRandom random = new SplittableRandom(seed);
            answerAlone(random);
            for (int i = 0; i < round; i++) {
                random.nextLong();
            }
            long roundSeed = random.nextLong();
            do {
                round(roundSeed, executorFault(round));
                rounds++;
            } while (problems.isEmpty() && clock.nanos() < end);
            return problems;
        } finally {
            LOG.setLevel(null);
        }
    }

    private List<String> rounds(long seconds) throws InterruptedException {
        Clock clock = Clock.system();
        long end = clock.nanos() + TimeUnit.SECONDS.toNanos(seconds);
        SplittableRandom random = new SplittableRandom(seed);
        answerAlone(random);
        for (int i = 0;
                problems.isEmpty() && (clock.nanos() < end || i < MAX_ROUNDS_TO_SEE_ALL && !unseen().isEmpty());
                i++) {
            round(random.nextLong(), executorFault(i));
            rounds++;
        }
        return problems;
    }

    /** The executor's fault in a round; every other round has none. */
    private static FaultyExecutor.Fault executorFault(int round) {
        FaultyExecutor.Fault[] kinds = FaultyExecutor.Fault.values();
        return round % 2 == 0 ? FaultyExecutor.Fault.NONE : kinds[round / 2 % kinds.length];
    }

    /** The names of faults and plans that a soak must contain and that have not happened. */
    List<String> unseen() {
        List<String> missing = new ArrayList<>();
        for (Fault fault : Fault.values()) {
            if (!injected.containsKey(fault)) {
                missing.add(fault.name());
            }
        }
        for (FaultyExecutor.Fault fault : FaultyExecutor.Fault.values()) {
            if (!executorFaults.containsKey(fault)) {
                missing.add(fault.name());
            }
        }
        for (FaultyExecutor.Seen each : FaultyExecutor.Seen.values()) {
            if (!seen.containsKey(each)) {
                missing.add(each.name());
            }
        }
        for (Model model : Model.values()) {
            for (PrefixUsed each : PrefixUsed.values()) {
                if (!prefixes.getOrDefault(model, Map.of()).containsKey(each)) {
                    missing.add(model + " " + each);
                }
            }
        }
        return missing;
    }

    String summary() {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("soak", "cpu");
        result.put("time", Instant.now().truncatedTo(ChronoUnit.SECONDS).toString());
        result.put("seed", seed);
        result.put("rounds", rounds);
        result.put("requests", requests);
        result.put("tokens", tokens);
        result.put("answers_compared", compared);
        result.put("faults", injected);
        result.put("executor_faults", executorFaults);
        result.put("ends", ends);
        result.put("seen", seen);
        result.put("prefixes", prefixes);
        result.put("unseen", unseen());
        result.put("problems", problems.size());
        return new ObjectMapper().writeValueAsString(result);
    }

    private synchronized void problem(String what) {
        problems.add("seed " + seed + ", round " + rounds + ": " + what);
    }

    private static <K> void count(Map<K, Long> counts, K key) {
        counts.merge(key, 1L, Long::sum);
    }

    /** Records what each request gets when it runs alone, with each model. */
    private void answerAlone(SplittableRandom random) throws InterruptedException {
        for (Model model : Model.values()) {
            answerAlone(model, random);
        }
    }

    private void answerAlone(Model model, SplittableRandom random) throws InterruptedException {
        List<Text> ofModel = new ArrayList<>();
        texts.put(model, ofModel);
        Budget budget = new Budget(64, 1, 64);
        EngineConfig config = new EngineConfig(budget, Set.of(END_TOKEN), CONTEXT, TEXTS, seed);
        try (Engine engine = new Engine(
                        config,
                        PolicyScheduler.of(new GpuOnly(budget, Preemption.RECOMPUTE)),
                        model.executor(16, 0, Readiness.allEarly()),
                        Clock.system(),
                        EngineListener.NONE)
                .start()) {
            for (int i = 0; i < TEXTS; i++) {
                int[] prompt = random.ints(1 + random.nextInt(MAX_PROMPT), 3, FaultyExecutor.MARKER)
                        .toArray();
                Text asked = new Text(prompt, sampling(random), List.of(), "", FinishReason.ABORT);
                Client client = new Client("alone-" + i, asked, Fault.NONE, 0, () -> {});
                engine.submit(client.request(asked.sampling()));
                if (!client.end.await(HANG_SECONDS, TimeUnit.SECONDS) || client.reason == null) {
                    throw new IllegalStateException("seed " + seed + ": request " + i + " alone: " + client.failure);
                }
                ofModel.add(new Text(
                        asked.prompt(),
                        asked.sampling(),
                        List.copyOf(client.tokens),
                        client.text.toString(),
                        client.reason));
            }
        }
    }

    private static SamplingParams sampling(SplittableRandom random) {
        SamplingParams.Builder sampling =
                SamplingParams.builder().temperature(0).maxTokens(1 + random.nextInt(MAX_OUTPUT));
        if (random.nextBoolean()) {
            sampling.temperature(random.nextDouble(0.01, 2)).seed(random.nextLong());
        }
        if (random.nextInt(3) == 0) {
            sampling.topP(random.nextDouble(0.01, 1))
                    .topK(random.nextInt(1, 50))
                    .minP(random.nextDouble(0.2));
        }
        if (random.nextInt(3) == 0) {
            sampling.presencePenalty(random.nextDouble(-2, 2))
                    .frequencyPenalty(random.nextDouble(-2, 2))
                    .repetitionPenalty(random.nextDouble(0.5, 2));
        }
        if (random.nextInt(3) == 0) {
            sampling.logitBias(Map.of(random.nextInt(300), (float) random.nextInt(-100, 100)));
        }
        if (random.nextInt(3) == 0) {
            sampling.stop(List.of("w" + random.nextInt(10), random.nextInt(10) + " w"))
                    .minTokens(random.nextInt(2));
        }
        if (random.nextInt(3) == 0) {
            sampling.stopTokenIds(Set.copyOf(List.of(random.nextInt(300), random.nextInt(300))));
        }
        return sampling.ignoreEos(random.nextBoolean()).build();
    }

    private void round(long roundSeed, FaultyExecutor.Fault executorFault) throws InterruptedException {
        SplittableRandom random = new SplittableRandom(roundSeed);
        long threads = engineThreads();
        int gpuBlocks = CONTEXT / BLOCK + 1 + random.nextInt(10);
        int hostBlocks = CONTEXT / BLOCK + 1 + random.nextInt(20);
        Budget budget = new Budget(8 + random.nextInt(120), 1 + random.nextInt(8), 1 + random.nextInt(64));
        Readiness readiness = switch (random.nextInt(3)) {
            case 0 -> Readiness.allEarly();
            case 1 -> Readiness.allLate();
            default -> Readiness.random(roundSeed);
        };
        Model model = Model.values()[random.nextInt(Model.values().length)];
        CpuExecutor real = model.executor(gpuBlocks, hostBlocks, readiness);
        FaultyExecutor executor = new FaultyExecutor(
                real, executorFault, 2 + random.nextInt(60), random.split(), each -> count(seen, each));
        Policy policy = new UntilHostLost(policy(budget, executorFault, random), new GpuOnly(budget, Preemption.SWAP));
        EngineConfig config = new EngineConfig(
                        budget, Set.of(END_TOKEN), CONTEXT, 2 * CLIENTS, roundSeed, random.nextInt(3) == 0 ? 0.1 : 0)
                .withPrefixCache(random.nextInt(3) > 0 ? PrefixCacheOptions.on(roundSeed) : PrefixCacheOptions.OFF);
        List<Client> clients = new ArrayList<>();
        Engine engine = new Engine(
                        config,
                        PolicyScheduler.of(new Checking(policy)),
                        executor,
                        Clock.system(),
                        new ThrowingListener())
                .start();
        int firstText = random.nextInt(TEXTS - TEXTS_PER_ROUND);
        try {
            submitAll(engine, random, texts.get(model).subList(firstText, firstText + TEXTS_PER_ROUND), clients);
            for (Client client : clients) {
                if (!client.refused && !client.end.await(HANG_SECONDS, TimeUnit.SECONDS)) {
                    problem(client + " did not end; " + engine.stats() + ", " + engine.health());
                    return; // without closing the engine, which would hang as well
                }
            }
            if (!engine.drain(Duration.ofSeconds(HANG_SECONDS))) {
                problem("the engine does not drain: " + engine.stats());
                return;
            }
        } finally {
            if (problems.isEmpty()) {
                engine.close();
            }
        }
        boolean dies =
                executorFault == FaultyExecutor.Fault.STEP_HANGS || executorFault == FaultyExecutor.Fault.DEVICE_FAILS;
        if (executor.isDone() || executorFault == FaultyExecutor.Fault.NONE) {
            count(executorFaults, executorFault);
        }
        boolean stalls = executorFault == FaultyExecutor.Fault.HOST_TOKEN_STALLS && executor.isDone();
        int kept = stalls ? (MAX_PROMPT + MAX_OUTPUT + BLOCK - 1) / BLOCK + 1 : 0;
        if (engine.stats().gpu().used() != 0 || engine.stats().host().used() > kept || engine.waiting() != 0) {
            problem("blocks or requests are left: " + engine.stats() + ", waiting " + engine.waiting());
        }
        if (!dies && executor.isDone() != engine.stats().hostLost().contains("injected")) {
            problem("the engine does not report the lost host: '"
                    + engine.stats().hostLost() + "', " + executorFault + ", " + executor.isDone());
        }
        if (engineThreads() != threads) {
            problem(engineThreads() + " engine threads, but " + threads + " before the round");
        }
        count(
                prefixes.computeIfAbsent(model, key -> new EnumMap<>(PrefixUsed.class)),
                engine.stats().prefixCache());
        clients.forEach(client -> check(client, dies && executor.isDone(), executorFault));
    }

    private static void count(Map<PrefixUsed, Long> counts, PrefixCacheUse use) {
        Map.of(
                        PrefixUsed.HIT_ON_GPU, use.gpuHits(),
                        PrefixUsed.HIT_ON_HOST, use.hostHits(),
                        PrefixUsed.COPIED, use.copiedHits(),
                        PrefixUsed.DEMOTED, use.demotions())
                .forEach((what, count) -> {
                    if (count > 0) {
                        counts.merge(what, count, Long::sum);
                    }
                });
    }

    private static long engineThreads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("tandem"))
                .count();
    }

    private static Policy policy(Budget budget, FaultyExecutor.Fault fault, SplittableRandom random) {
        boolean inFlightTokens =
                fault == FaultyExecutor.Fault.HOST_TOKEN_FAILS || fault == FaultyExecutor.Fault.HOST_TOKEN_STALLS;
        return switch (random.nextInt(inFlightTokens ? 2 : 3)) {
            case 0 -> new ChangingStrategies(budget, random.nextLong());
            case 1 -> new Shuffling(budget, Shuffling.Takes.EVERYTHING, random.nextLong());
            default ->
                Strategy.values()[random.nextInt(Strategy.values().length)].policy(
                        Strategy.Options.of(budget), TestProfile.withCpu(Math.pow(10, random.nextInt(-1, 4))));
        };
    }

    private void submitAll(Engine engine, SplittableRandom random, List<Text> asked, List<Client> clients)
            throws InterruptedException {
        Semaphore permits = new Semaphore(MAX_CONCURRENT);
        for (int i = 0; i < CLIENTS; i++) {
            if (!permits.tryAcquire(HANG_SECONDS, TimeUnit.SECONDS)) {
                problem("no request ends any more: " + engine.stats() + ", " + engine.health());
                return;
            }
            Fault fault = random.nextBoolean() ? Fault.NONE : Fault.values()[random.nextInt(Fault.values().length)];
            requests++;
            if (fault == Fault.MALFORMED) {
                submitMalformed(engine, random);
                permits.release();
                continue;
            }
            Text text = asked.get(random.nextInt(asked.size()));
            if (fault == Fault.NOT_A_NUMBER) {
                int[] prompt = text.prompt().clone();
                prompt[0] = FaultyExecutor.MARKER;
                text = new Text(
                        prompt, EngineHarness.greedy(MAX_OUTPUT).withLogprobs(-1), List.of(), "", FinishReason.ABORT);
            }
            String id = "r" + i + (fault == Fault.LISTENER_THROWS ? "-listener" : "");
            Client client = new Client(id, text, fault, random.nextInt(8), permits::release);
            client.engine = engine;
            clients.add(client);
            try {
                engine.submit(
                        client.request(text.sampling().withLogprobs(random.nextInt(4) == 0 ? random.nextInt(3) : -1)));
                count(injected, fault);
            } catch (RequestException e) {
                client.refused = true;
                client.failure = e.getMessage();
                permits.release();
            }
            if (fault == Fault.CANCELLED_BY_ANOTHER_THREAD) {
                engine.cancel(clients.get(random.nextInt(clients.size())).cancellable());
                engine.cancel(client.id);
            } else if (fault == Fault.DUPLICATE_ID) {
                submitAgain(engine, client, clients, permits);
            }
        }
    }

    /** Submits a second request with the same id; only this one may be rejected or fail while the first runs. */
    private void submitAgain(Engine engine, Client first, List<Client> clients, Semaphore permits)
            throws InterruptedException {
        if (!permits.tryAcquire(HANG_SECONDS, TimeUnit.SECONDS)) {
            problem("no request ends any more: " + engine.stats());
            return;
        }
        Client second = new Client(first.id, first.asked, Fault.DUPLICATE_ID, 0, permits::release);
        clients.add(second);
        try {
            engine.submit(second.request(first.asked.sampling()));
        } catch (RequestException e) {
            second.refused = true;
            second.failure = e.getMessage();
            permits.release();
        }
    }

    private void submitMalformed(Engine engine, SplittableRandom random) {
        SamplingParams.Builder sampling = SamplingParams.builder().maxTokens(4);
        int[] prompt = {5, 6, 7};
        int kind = random.nextInt(12);
        try {
            switch (kind) {
                case 0 -> prompt = new int[0];
                case 1 -> prompt = new int[] {5, -1};
                case 2 -> prompt = new int[] {5, 301};
                case 3 ->
                    prompt = random.ints(CONTEXT + random.nextInt(5), 3, 300).toArray();
                case 4 -> sampling.temperature(random.nextBoolean() ? Double.NaN : -1);
                case 5 -> sampling.topP(0);
                case 6 -> sampling.maxTokens(random.nextBoolean() ? 0 : Integer.MIN_VALUE);
                case 7 -> sampling.stopTokenIds(Set.of(1000));
                case 8 -> sampling.logitBias(Map.of(-1, 1f));
                case 9 -> sampling.repetitionPenalty(0);
                case 10 -> sampling.minP(1.5);
                default -> sampling.frequencyPenalty(Double.POSITIVE_INFINITY);
            }
            engine.submit(new Request("malformed", prompt, sampling.build(), 0, TextDecoder.none(), event -> {}));
            problem("malformed request of kind " + kind + " was accepted");
        } catch (RequestException e) {
            count(injected, Fault.MALFORMED);
            if (e.getMessage().isBlank()) {
                problem("malformed request of kind " + kind + " was rejected without a message");
            }
        }
    }

    private void check(Client client, boolean died, FaultyExecutor.Fault executorFault) {
        tokens += client.tokens.size();
        String end = client.failure != null
                ? "failed"
                : String.valueOf(client.reason).toLowerCase(Locale.ROOT);
        count(ends, client.refused ? "refused" : end);
        if (client.refused) {
            if (!died && client.fault != Fault.DUPLICATE_ID) {
                problem(client + " was rejected: " + client.failure);
            }
            return;
        }
        if (client.ends != 1) {
            problem(client + " ended " + client.ends + " times");
        }
        if (client.failure != null && client.failure.isBlank()) {
            problem(client + " failed without a message");
        }
        boolean marked = client.fault == Fault.NOT_A_NUMBER;
        List<Integer> expected = client.asked.tokens();
        if (!marked
                && !expected.subList(0, Math.min(expected.size(), client.tokens.size()))
                        .equals(client.tokens)) {
            problem(client + " got " + client.tokens + ", alone " + expected);
        }
        boolean hostLost = client.failure != null
                && client.failure.contains("injected")
                && (executorFault == FaultyExecutor.Fault.HOST_TOKEN_FAILS
                        || executorFault == FaultyExecutor.Fault.HOST_TOKEN_STALLS);
        if (client.fault == Fault.NONE && !died && !hostLost && client.reason != FinishReason.ABORT) {
            compared++;
            if (client.failure != null
                    || client.reason != client.asked.reason()
                    || !client.tokens.equals(expected)
                    || !client.text.toString().equals(client.asked.text())) {
                problem(client + " got " + client.tokens + " '" + client.text + "' " + client.reason + " "
                        + client.failure + ", alone "
                        + expected + " '" + client.asked.text() + "' " + client.asked.reason());
            }
        }
        if (client.fault == Fault.NONE && client.reason == FinishReason.ABORT && !client.mayBeCancelled) {
            problem(client + " was aborted but not cancelled");
        }
        if (client.threw && client.failure == null && client.reason == null) {
            problem(client + " threw but neither failed nor finished");
        }
        boolean decoder = client.fault == Fault.DECODER_THROWS || client.fault == Fault.DECODER_THROWS_AT_THE_END;
        if (decoder && client.threw && client.failure == null) {
            problem(client + " ended with " + client.reason + " though its decoder threw");
        }
    }

    /**
     * One request and its outcome.
     *
     * <p>Owned by: engine thread until {@link #end}, then the thread of the soak.
     */
    private static final class Client {
        final String id;
        final Text asked;
        final Fault fault;
        /** Tokens before the fault. */
        final int after;

        final Runnable onEnd;
        final CountDownLatch end = new CountDownLatch(1);
        final List<Integer> tokens = new ArrayList<>();
        final StringBuilder text = new StringBuilder();
        FinishReason reason;
        String failure;
        int ends;
        int decoded;
        boolean threw;
        boolean refused;
        volatile boolean mayBeCancelled;
        Engine engine;

        Client(String id, Text asked, Fault fault, int after, Runnable onEnd) {
            this.id = id;
            this.asked = asked;
            this.fault = fault;
            this.after = after;
            this.onEnd = onEnd;
        }

        String cancellable() {
            mayBeCancelled = true;
            return id;
        }

        Request request(SamplingParams sampling) {
            return new Request(
                    id, asked.prompt(), sampling, 0, TextDecoder.of(this::decode, this::finishText), this::on);
        }

        private String decode(int token) {
            if (fault == Fault.DECODER_THROWS && decoded++ == after) {
                threw = true;
                throw new IllegalStateException("injected: the decoder of " + id);
            }
            return "w" + token + " ";
        }

        private String finishText() {
            if (fault == Fault.DECODER_THROWS_AT_THE_END) {
                threw = true;
                throw new IllegalStateException("injected: the decoder's end of " + id);
            }
            return "";
        }

        private void on(TokenEvent event) {
            switch (event) {
                case TokenEvent.Token token -> {
                    tokens.add(token.id());
                    text.append(token.text());
                    if (fault == Fault.CANCELLED_IN_THE_SINK && tokens.size() > after) {
                        engine.cancel(id);
                    }
                }
                case TokenEvent.Finished finished -> {
                    text.append(finished.text());
                    reason = finished.reason();
                    checkUsage(finished.usage());
                    ended();
                }
                case TokenEvent.Failed failed -> {
                    failure = failed.message();
                    ended();
                }
            }
            if (tokens.size() > after || ends > 0) {
                if (fault == Fault.SINK_THROWS) {
                    threw = true;
                    throw new IllegalStateException("injected: the sink of " + id);
                } else if (fault == Fault.SINK_THROWS_AN_ERROR) {
                    threw = true;
                    throw new StackOverflowError("injected: the sink of " + id);
                }
            }
        }

        private void checkUsage(Usage usage) {
            if (usage.promptTokens() != asked.prompt().length) {
                failure = "usage counts " + usage.promptTokens() + " prompt tokens of " + asked.prompt().length;
            }
        }

        private void ended() {
            if (ends++ == 0) {
                onEnd.run();
                end.countDown();
            }
        }

        @Override
        public String toString() {
            return id + " (" + fault + " after " + after + ", " + asked.prompt().length + " prompt tokens, "
                    + asked.sampling() + ")";
        }
    }

    /** A listener that throws for requests whose id ends with "-listener". */
    private static final class ThrowingListener implements EngineListener {
        @Override
        public void firstToken(Request request, long sinceArrival) {
            throwFor(request);
        }

        @Override
        public void nextToken(Request request, long sincePrevious) {
            throwFor(request);
        }

        @Override
        public void finished(Request request, FinishReason reason, Usage usage) {
            throwFor(request);
        }

        @Override
        public void failed(Request request, String message) {
            throwFor(request);
        }

        private static void throwFor(Request request) {
            if (request.id().endsWith("-listener")) {
                throw new IllegalStateException("injected: the listener of " + request.id());
            }
        }
    }
}
