package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.ClientGoneException;
import dev.tandem.server.http.Exchange;
import java.util.Objects;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * Threads on which bodies are parsed and prompts are templated and tokenized. They are platform threads, because the
 * tokenizer is native code and would pin the carrier of a virtual thread: two long prompts would then stop every
 * stream. Few of them bound the memory of parsed bodies, and a bounded queue refuses what they cannot keep up with.
 *
 * <p>Owned by: thread-safe.
 */
public final class TokenizerPool implements AutoCloseable {
    /** The other cores are the engine's; on two cores one thread tokenizes about a megabyte per second. */
    private static final int CORES_PER_THREAD = 4;

    private static final int MAX_THREADS = 8;

    private final int capacity;
    private final ThreadPoolExecutor threads;

    TokenizerPool(int size, int capacity) {
        this.capacity = capacity;
        this.threads = new ThreadPoolExecutor(
                size,
                size,
                0,
                TimeUnit.SECONDS,
                new ArrayBlockingQueue<>(capacity),
                Thread.ofPlatform().daemon().name("tandem-tokenizer-", 0).factory());
    }

    /**
     * A pool for this machine.
     *
     * @param capacity requests which may wait for a thread
     */
    public static TokenizerPool of(int capacity) {
        int cores = Runtime.getRuntime().availableProcessors();
        return new TokenizerPool(Math.clamp(cores / CORES_PER_THREAD, 1, MAX_THREADS), capacity);
    }

    /**
     * Runs the work and waits for it. What it throws is thrown here.
     *
     * @throws RequestException when too many requests wait
     */
    <T> T run(Exchange exchange, Supplier<T> work) throws InterruptedException {
        Future<T> result;
        try {
            result = threads.submit(() -> {
                if (exchange.isGone()) {
                    throw new ClientGoneException();
                }
                return work.get();
            });
        } catch (RejectedExecutionException e) {
            throw RequestException.of(
                    RequestException.Category.OVERLOADED,
                    capacity + " requests wait to be tokenized, which is the limit; try again later");
        }
        try {
            return result.get();
        } catch (ExecutionException e) {
            switch (Objects.requireNonNull(e.getCause())) {
                case RuntimeException cause -> throw cause;
                case Error cause -> throw cause;
                case Throwable cause -> throw new IllegalStateException(cause); // a supplier throws no other
            }
        }
    }

    @Override
    public void close() {
        threads.shutdownNow();
    }
}
