package dev.tandem.app;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.sampling.Choice;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.server.TandemServer;
import dev.tandem.server.http.AccessLog;
import dev.tandem.server.http.HttpLimits;
import dev.tandem.server.http.OriginPolicy;
import dev.tandem.server.metrics.EngineHistory;
import dev.tandem.server.metrics.ServerMetrics;
import dev.tandem.server.openai.ApiKeys;
import dev.tandem.server.openai.CacheSaltFrom;
import dev.tandem.server.openai.ServedModel;
import dev.tandem.text.HuggingFaceTokenizer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CountDownLatch;

/**
 * A server as a process of its own, whose executor fails as it is told. Arguments: a folder for a tokenizer, a
 * {@link Fault}.
 */
final class FailingServer {
    private static final Duration MINUTE = Duration.ofMinutes(1);

    /** Steps before the fault, so that a client is in the middle of its answer. */
    private static final int STEPS = 3;

    enum Fault {
        /** The device fails in the fourth step. */
        DIES,
        /** It fails, and cannot be closed. */
        DIES_AND_HANGS,
        /** The fourth step never ends. */
        STEP_HANGS
    }

    private FailingServer() {}

    /** On a free port of the loopback address. */
    static TandemServer listen() {
        HttpLimits limits = new HttpLimits(1 << 20, 1 << 14, 1 << 24, 64, MINUTE, MINUTE, MINUTE, MINUTE);
        return new TandemServer(
                "127.0.0.1",
                0,
                limits,
                new OriginPolicy(true, List.of(), List.of()),
                Optional.empty(),
                Optional.empty(),
                AccessLog.OFF);
    }

    public static void main(String[] args) throws InterruptedException {
        Logging.install();
        HuggingFaceTokenizer tokenizer = HuggingFaceTokenizer.open(DummyModel.write(Path.of(args[0])));
        Budget budget = new Budget(64, 8, 64);
        EngineConfig config = new EngineConfig(budget, Set.of(2), DummyModel.CONTEXT, 16, 0);
        ServerMetrics metrics = new ServerMetrics("dummy");
        Engine engine = new Engine(
                        config,
                        PolicyScheduler.of(new GpuOnly(budget, Preemption.RECOMPUTE)),
                        new FailingExecutor(Fault.valueOf(args[1])),
                        Clock.system(),
                        metrics)
                .start();
        TandemServer server = listen();
        server.serve(
                ApiKeys.NONE,
                new ServedModel(
                        "dummy",
                        engine,
                        tokenizer,
                        Optional.empty(),
                        ServedModel.SamplingDefaults.NEUTRAL,
                        GrammarCompiler.unavailable("no grammars"),
                        CacheSaltFrom.NONE),
                new DecisionLog(10),
                metrics,
                new EngineHistory(Clock.system(), "gpu-only"),
                Optional.empty());
        ServerLifetime lifetime = new ServerLifetime(server, engine, engine, Duration.ofMinutes(10), System.err);
        lifetime.handleSignals();
        System.out.println("on http://127.0.0.1:" + server.port());
        lifetime.awaitEnd();
    }

    /**
     * Every sequence's next token is 5.
     *
     * <p>Owned by: engine thread.
     */
    private static final class FailingExecutor implements Executor {
        private final Fault fault;
        private final Queue<StepPlan> plans = new ArrayDeque<>();
        private int steps;

        FailingExecutor(Fault fault) {
            this.fault = fault;
        }

        @Override
        public ExecutorLimits limits() {
            return ExecutorLimits.builder()
                    .vocabulary(320)
                    .contextTokens(DummyModel.CONTEXT)
                    .blockTokens(16)
                    .gpuBlocks(64)
                    .maxBatchTokens(64)
                    .kvBytesPerToken(256)
                    .build();
        }

        @Override
        public void submit(StepPlan plan) {
            plans.add(plan);
        }

        @Override
        public StepResult poll() {
            StepPlan plan = plans.remove();
            if (steps++ == STEPS) {
                switch (fault) {
                    case DIES, DIES_AND_HANGS -> throw new ExecutorException("the device\nhas failed");
                    case STEP_HANGS -> waitForEver();
                }
            }
            List<StepResult.Sampled> sampled = plan.subBatches().stream()
                    .flatMap(batch -> batch.chunks().stream())
                    .filter(chunk -> chunk.sampler().isPresent())
                    .map(chunk ->
                            new StepResult.Sampled(chunk.sequence(), new Choice(5, Optional.empty()), chunk.site()))
                    .toList();
            return new StepResult(plan.step(), sampled, List.of(), List.of(), StepTimes.NONE);
        }

        @Override
        public void close() {
            if (fault == Fault.DIES_AND_HANGS) {
                waitForEver();
            }
        }

        private static void waitForEver() {
            while (true) {
                try {
                    new CountDownLatch(1).await();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
        }
    }
}
