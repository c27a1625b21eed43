package dev.tandem.engine.execute;

/** The executor cannot continue: a device fault, a dead worker, numbers that are no numbers. */
public final class ExecutorException extends RuntimeException {
    public ExecutorException(String message) {
        super(message);
    }

    public ExecutorException(String message, Throwable cause) {
        super(message, cause);
    }
}
