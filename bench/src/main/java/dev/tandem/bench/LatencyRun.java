package dev.tandem.bench;

import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.Usage;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Measures batches of requests of one size, one batch after another: prefill and decode apart.
 *
 * <p>Owned by: the thread that measures.
 */
public final class LatencyRun {
    private static final int FIRST_TOKEN_ID = 3;

    /** Requests per batch, and the tokens of each. */
    public record Shape(int batchSize, int inputLength, int outputLength) {}

    /** Seconds until the last request has its first token, from there to the end, and of the whole batch. */
    public record Batch(double prefillSeconds, double decodeSeconds, double totalSeconds) {}

    private final Engine engine;
    private final Shape shape;
    private final SplittableRandom random;

    public LatencyRun(Engine engine, Shape shape, long seed) {
        this.engine = engine;
        this.shape = shape;
        this.random = new SplittableRandom(seed);
    }

    /**
     * Runs one batch of random prompts.
     *
     * @param name of its requests
     * @throws ExecutorException when a request fails
     */
    public Batch run(String name) throws InterruptedException {
        BlockingQueue<Object> ends = new LinkedBlockingQueue<>();
        List<Request> requests = new ArrayList<>();
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0)
                .maxTokens(shape.outputLength())
                .ignoreEos(true)
                .build();
        int vocabulary = engine.limits().vocabulary();
        for (int i = 0; i < shape.batchSize(); i++) {
            int[] prompt =
                    random.ints(shape.inputLength(), FIRST_TOKEN_ID, vocabulary).toArray();
            requests.add(new Request(name + "-" + i, prompt, sampling, 0, TextDecoder.none(), event -> {
                switch (event) {
                    case TokenEvent.Token token -> {}
                    case TokenEvent.Finished finished -> ends.add(finished.usage());
                    case TokenEvent.Failed failed -> ends.add(failed.message());
                }
            }));
        }
        engine.submit(requests);
        double prefill = 0;
        double total = 0;
        for (int i = 0; i < shape.batchSize(); i++) {
            switch (ends.take()) {
                case Usage usage -> {
                    prefill = Math.max(prefill, usage.timeToFirstToken() / 1e9);
                    total = Math.max(total, usage.total() / 1e9);
                }
                case Object failure -> throw new ExecutorException("the batch failed: " + failure);
            }
        }
        return new Batch(prefill, total - prefill, total);
    }
}
