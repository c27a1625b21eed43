package dev.tandem.engine;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.loop.EngineLoop;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.queue.AdmissionQueue;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.TokenLogprobs;
import dev.tandem.engine.request.TraceParent;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.strategy.GpuOnly;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** The real engine loop without its thread: the test runs each step, and blocks are checked after it. */
public final class EngineHarness implements AutoCloseable {
    /** What one request received. */
    public static final class Answer {
        public final List<Integer> tokens = new ArrayList<>();
        /** Log-probabilities of the tokens, if the request asks for them. */
        public final List<TokenLogprobs> logprobs = new ArrayList<>();

        public FinishReason reason;
        public Usage usage;
        /** Why the request failed. */
        public String failure;
    }

    private final Executor executor;
    /** Whether requests may fail. */
    public boolean failuresExpected;

    private String unexpected = "";
    private final AdmissionQueue queue;
    public final VirtualClock clock = new VirtualClock();
    public final EngineLoop loop;
    public final Map<String, Answer> answers = new LinkedHashMap<>();

    public EngineHarness(Executor executor, Scheduler scheduler, Budget budget) {
        this(executor, scheduler, budget, PrefixCacheOptions.OFF);
    }

    public EngineHarness(Executor executor, Scheduler scheduler, Budget budget, PrefixCacheOptions prefixCache) {
        this.executor = executor;
        this.queue = new AdmissionQueue(100_000, clock);
        EngineConfig config = new EngineConfig(
                        budget, Set.of(), executor.limits().contextTokens(), 100_000, 1)
                .withPrefixCache(prefixCache);
        this.loop = new EngineLoop(config, queue, scheduler, executor, clock, EngineListener.NONE);
    }

    public static EngineHarness gpuOnly(Executor executor, Budget budget, Preemption preemption) {
        return new EngineHarness(executor, PolicyScheduler.of(new GpuOnly(budget, preemption)), budget);
    }

    public void submit(String id, int[] prompt, SamplingParams sampling) {
        submit(id, prompt, sampling, PrefixCaching.SHARED);
    }

    public void submit(String id, int[] prompt, SamplingParams sampling, PrefixCaching caching) {
        queue.offer(List.of(request(id, prompt, sampling).withCaching(caching)));
    }

    /** Submits a request whose prompt is scored. */
    public void submit(String id, int[] prompt, SamplingParams sampling, PromptScorer scorer) {
        queue.offer(List.of(request(id, prompt, sampling).withScorer(scorer)));
    }

    /** Submits a request that is part of a trace. */
    public void submit(String id, int[] prompt, SamplingParams sampling, TraceParent trace) {
        queue.offer(List.of(request(id, prompt, sampling).withTrace(Optional.of(trace))));
    }

    private Request request(String id, int[] prompt, SamplingParams sampling) {
        Answer answer = new Answer();
        answers.put(id, answer);
        return new Request(id, prompt, sampling, 0, TextDecoder.none(), event -> {
            switch (event) {
                case TokenEvent.Token token -> {
                    answer.tokens.add(token.id());
                    token.logprobs().ifPresent(answer.logprobs::add);
                }
                case TokenEvent.Finished finished -> {
                    answer.reason = finished.reason();
                    answer.usage = finished.usage();
                }
                case TokenEvent.Failed failed -> {
                    answer.failure = failed.message();
                    if (!failuresExpected) {
                        unexpected = failed.message(); // an error thrown here would only end this request
                    }
                }
            }
        });
    }

    public void resetPrefixCache() {
        queue.resetPrefixCache();
    }

    public void cancel(String id) {
        queue.cancel(id);
    }

    public boolean step() {
        boolean worked = loop.step();
        if (!unexpected.isEmpty()) {
            throw new AssertionError(unexpected);
        }
        loop.checkIntegrity();
        checkStates(KvTier.GPU, loop.stats().gpu());
        checkStates(KvTier.HOST, loop.stats().host());
        clock.advance(1_000_000);
        return worked;
    }

    /** The integrity check has compared the pool's count of each state with its blocks. */
    private void checkStates(KvTier tier, EngineStats.Pool pool) {
        int pages = pool.freePages()
                + pool.privatePages()
                + pool.heldPages()
                + pool.cachedPages()
                + pool.quarantinedPages();
        if (pages != executor.limits().pages(tier)) {
            throw new AssertionError("the states of the " + tier + " blocks do not add up to "
                    + executor.limits().pages(tier) + ": " + pool);
        }
    }

    /** Runs until the engine is idle, and fails instead of looping for ever. */
    public void run() {
        for (int steps = 0; !loop.isIdle(); steps++) {
            if (steps > 200_000) {
                throw new AssertionError("the engine does not come to an end: " + loop.stats());
            }
            step();
        }
    }

    public List<Integer> tokens(String id) {
        return answers.get(id).tokens;
    }

    public static SamplingParams greedy(int tokens) {
        return SamplingParams.builder()
                .temperature(0)
                .maxTokens(tokens)
                .ignoreEos(true)
                .build();
    }

    @Override
    public void close() {
        executor.close();
    }
}
