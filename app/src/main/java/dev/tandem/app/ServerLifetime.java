package dev.tandem.app;

import dev.tandem.engine.loop.Engine;
import dev.tandem.server.TandemServer;
import dev.tandem.server.http.Printable;
import java.io.PrintStream;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * From the first request to the end of the process. There are three ends:
 *
 * <table>
 * <caption>Ends</caption>
 * <tr><th>what happens</th><th>what the process does</th><th>exit status</th></tr>
 * <tr><td>SIGTERM or Ctrl-C</td><td>refuses new requests, finishes running ones, closes</td><td>0</td></tr>
 * <tr><td>a second one meanwhile</td><td>the system ends it at once</td><td>130, 143</td></tr>
 * <tr><td>the engine dies</td><td>says why, sends the error answers, closes; 5 s at most</td><td>1</td></tr>
 * </table>
 *
 * <p>Owned by: the first of the main thread and the shutdown hook that sets {@link #ending}; a watchdog halts the
 * process where closing hangs.
 */
final class ServerLifetime {
    /** From the engine's death to the end of the process, so that a supervisor restarts it soon. */
    private static final Duration DEATH_LIMIT = Duration.ofSeconds(5);
    /** The part of it for the answers, which are errors of one line each. */
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(2);
    /** For closing connections, executor and model after the last answer: a GPU with a hung kernel never closes. */
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(10);

    private final TandemServer server;
    private final Engine engine;
    private final AutoCloseable resources;
    private final Duration drainLimit;
    private final PrintStream log;
    private final AtomicBoolean ending = new AtomicBoolean();

    /** @param resources closed after the last answer, the engine among them */
    ServerLifetime(TandemServer server, Engine engine, AutoCloseable resources, Duration drainLimit, PrintStream log) {
        this.server = server;
        this.engine = engine;
        this.resources = resources;
        this.drainLimit = drainLimit;
        this.log = log;
    }

    /** From now on SIGTERM and Ctrl-C end the server in order. */
    void handleSignals() {
        Runtime.getRuntime()
                .addShutdownHook(Thread.ofPlatform().name("tandem-shutdown").unstarted(this::endInOrder));
    }

    /** Waits for the end; the process never returns from here. */
    void awaitEnd() throws InterruptedException {
        Engine.Health.Dead dead;
        try {
            dead = engine.whenEnded().toCompletableFuture().get();
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        }
        if (!ending.compareAndSet(false, true)) {
            new CountDownLatch(1).await(); // the shutdown hook ends the process
        }
        haltAfter(DEATH_LIMIT, "closing takes longer than " + DEATH_LIMIT.toSeconds() + " s and is broken off");
        log.println("tandem: the engine has stopped: " + Printable.oneLine(dead.reason())
                + ". Running requests got an error, and the server ends. Start it again; the log above has the"
                + " details.");
        server.awaitAnswers(ANSWER_LIMIT);
        close();
        halt(ExitCode.FAILED);
    }

    private void endInOrder() {
        if (!ending.compareAndSet(false, true)) {
            return; // the engine has died; the main thread ends the process
        }
        ProcessSignals.endAtOnce();
        log.println("shutting down: the server ends once its requests have finished, at most " + drainLimit.toSeconds()
                + " s from now; another Ctrl-C or SIGTERM ends at once");
        haltAfter(
                drainLimit.plus(CLOSE_LIMIT),
                "closing takes longer than " + CLOSE_LIMIT.toSeconds() + " s and is broken off");
        try {
            if (!engine.drain(drainLimit)) {
                log.println("Some requests were still running after " + drainLimit.toSeconds()
                        + " s and got an error. Raise --shutdown-timeout to give them longer.");
            }
            server.awaitAnswers(ANSWER_LIMIT);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        close();
        // a JVM that ends by a signal reports it as failure; this end is orderly
        halt(ExitCode.OK);
    }

    private void close() {
        server.close();
        try {
            resources.close();
        } catch (Exception e) {
            log.println("closing failed: " + Printable.oneLine(e.toString()));
        }
    }

    private void haltAfter(Duration limit, String message) {
        Thread.ofPlatform().daemon().name("tandem-halt").start(() -> {
            try {
                TimeUnit.NANOSECONDS.sleep(limit.toNanos());
            } catch (InterruptedException e) {
                return;
            }
            log.println(message);
            halt(ExitCode.FAILED);
        });
    }

    private void halt(int code) {
        log.flush();
        System.out.flush();
        Runtime.getRuntime().halt(code);
    }
}
