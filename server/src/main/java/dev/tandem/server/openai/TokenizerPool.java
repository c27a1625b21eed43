package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.ClientGoneException;
import dev.tandem.server.http.Exchange;
import java.util.Objects;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * Threads that parse bodies, render chat templates and tokenize prompts. They are platform threads, because the
 * tokenizer is native code and would pin the carrier of a virtual thread: two long prompts would then stop every
 * stream. A small number of threads bounds the memory of parsed bodies. The queue is bounded: requests beyond it are
 * refused.
 *
 * <p>Owned by: thread-safe.
 */
public final class TokenizerPool implements AutoCloseable {
    /** Leaves the other cores to the engine; on a machine with two cores, one thread tokenizes about 1 MB/s. */
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
     * @param capacity max number of requests that wait for a thread
     */
    public static TokenizerPool of(int capacity) {
        int cores = Runtime.getRuntime().availableProcessors();
        return new TokenizerPool(Math.clamp(cores / CORES_PER_THREAD, 1, MAX_THREADS), capacity);
    }

    /**
     * Runs the work on a thread of the pool and waits for it; exceptions of the work are thrown here.
     *
     * @throws RequestException when too many requests wait
     */
    <T> T run(Exchange exchange, Supplier<T> work) throws InterruptedException {
        return run(() -> {
            if (exchange.isGone()) {
                throw new ClientGoneException();
            }
            return work.get();
        });
    }

    /**
     * Runs work that no client can abandon.
     *
     * @throws RequestException when too many requests wait
     */
    <T> T run(Callable<T> work) throws InterruptedException {
        Future<T> result;
        try {
            result = threads.submit(work);
        } catch (RejectedExecutionException e) {
            if (threads.isShutdown()) {
                throw closed();
            }
            throw RequestException.of(
                    RequestException.Category.OVERLOADED,
                    capacity + " requests wait to be tokenized, which is the limit; try again later");
        }
        try {
            return result.get();
        } catch (CancellationException e) {
            throw closed();
        } catch (ExecutionException e) {
            switch (Objects.requireNonNull(e.getCause())) {
                case RuntimeException cause -> throw cause;
                case Error cause -> throw cause;
                case Throwable cause -> throw new IllegalStateException(cause); // a supplier throws no other
            }
        }
    }

    private static RequestException closed() {
        return RequestException.of(
                RequestException.Category.UNAVAILABLE, "the model is being closed and takes no new requests");
    }

    /** Refuses what waits, and waits for what is being tokenized: afterwards the tokenizer may be closed. */
    @Override
    public void close() {
        for (Runnable waiting : threads.shutdownNow()) {
            if (waiting instanceof Future<?> result) {
                result.cancel(false);
            }
        }
        threads.close();
    }
}
