package dev.tandem.engine.executor;

/**
 * The executor cannot continue: a device fault, a dead worker. Where one row's logits allow no choice of a token, the
 * sampler throws it to the executor, which reports that sequence as lost and goes on.
 */
public final class ExecutorException extends RuntimeException {
    public ExecutorException(String message) {
        super(message);
    }

    public ExecutorException(String message, Throwable cause) {
        super(message, cause);
    }
}
