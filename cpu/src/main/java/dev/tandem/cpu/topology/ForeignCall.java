package dev.tandem.cpu.topology;

/** Handles the {@code Throwable} that {@link java.lang.invoke.MethodHandle#invokeExact} declares. */
public final class ForeignCall {
    private ForeignCall() {}

    /**
     * Rethrows errors and unchecked exceptions as they are; wraps a checked exception.
     *
     * @param function the native function's name
     * @param thrown what the call of the native function threw
     * @return the exception that the caller throws
     */
    public static IllegalStateException failed(String function, Throwable thrown) {
        switch (thrown) {
            case RuntimeException e -> throw e;
            case Error e -> throw e;
            default -> {
                return new IllegalStateException("the call of " + function + " failed", thrown);
            }
        }
    }
}
