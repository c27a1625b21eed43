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
 * Ends the server process. There are three ways in which it ends:
 *
 * <table>
 * <caption>How the server ends</caption>
 * <tr><th>what happens</th><th>what the process does</th><th>exit status</th></tr>
 * <tr><td>SIGTERM or Ctrl-C</td><td>refuses new requests, finishes running ones, closes</td><td>0</td></tr>
 * <tr><td>a second signal after that</td><td>the system ends it at once</td><td>130, 143</td></tr>
 * <tr><td>the engine dies</td><td>logs the reason, sends error answers, closes; takes at most 5 s</td><td>1</td></tr>
 * </table>
 *
 * <p>Owned by: the main thread or the shutdown hook, whichever sets {@link #ending} first; a watchdog halts the process
 * when closing hangs.
 */
final class ServerLifetime {
    /** Max time from the engine's death to the end of the process, so that a supervisor can restart it soon. */
    private static final Duration DEATH_LIMIT = Duration.ofSeconds(5);
    /** The part of that time for error answers, which have one line each. */
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(2);
    /** Max time to close connections, executor and model; a GPU with a hung kernel would never close. */
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(10);

    private final TandemServer server;
    private final Engine engine;
    private final AutoCloseable resources;
    private final Duration drainLimit;
    private final PrintStream log;
    private final AtomicBoolean ending = new AtomicBoolean();

    /** @param resources the engine and others, closed after the last answer */
    ServerLifetime(TandemServer server, Engine engine, AutoCloseable resources, Duration drainLimit, PrintStream log) {
        this.server = server;
        this.engine = engine;
        this.resources = resources;
        this.drainLimit = drainLimit;
        this.log = log;
    }

    /** Makes SIGTERM and Ctrl-C finish running requests before the server ends. */
    void handleSignals() {
        Runtime.getRuntime()
                .addShutdownHook(Thread.ofPlatform().name("tandem-shutdown").unstarted(this::endInOrder));
    }

    /** Waits for the end of the process; never returns. */
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
        // a JVM that ends by a signal reports a failure, but this end is regular
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
