package dev.tandem.cpu.topology;

/** The one answer to what {@link java.lang.invoke.MethodHandle#invokeExact} declares to throw. */
public final class ForeignCall {
    private ForeignCall() {}

    /**
     * Turns what a call of a native function threw into an exception to throw; errors and unchecked exceptions are
     * rethrown as they are.
     *
     * @param function the native function's name
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
