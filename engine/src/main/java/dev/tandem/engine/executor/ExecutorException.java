package dev.tandem.engine.executor;

/** The executor cannot continue: a device fault or a dead worker. It is not used again. */
public final class ExecutorException extends RuntimeException {
    /** Creates an exception that says what failed. */
    public ExecutorException(String message) {
        super(message);
    }

    /** Creates an exception that says what failed and has a cause. */
    public ExecutorException(String message, Throwable cause) {
        super(message, cause);
    }
}
