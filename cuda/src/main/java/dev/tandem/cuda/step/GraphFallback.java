package dev.tandem.cuda.step;

import dev.tandem.cuda.ffi.CudaException;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * Captures graphs until the driver refuses one. After that it captures no more and warns once. Steps without a graph
 * are enqueued kernel by kernel, which is slower and equally correct.
 *
 * <p>Owned by: engine thread.
 */
final class GraphFallback {
    private final Consumer<String> warn;
    private boolean refused;

    /** @param warn receives the warning */
    GraphFallback(Consumer<String> warn) {
        this.warn = warn;
    }

    /**
     * The graph of a key, captured when there is none; empty when the driver refuses.
     *
     * @param capture may throw {@link CudaException}
     */
    <K, G> Optional<G> find(Recent<K, G> kept, K key, Function<K, G> capture) {
        if (refused && !kept.has(key)) {
            return Optional.empty();
        }
        try {
            return Optional.of(kept.get(key, capture));
        } catch (CudaException e) {
            refused = true;
            warn.accept("CUDA cannot capture a step as a graph (" + e.getMessage()
                    + "): steps that have none yet are enqueued kernel by kernel from now on,"
                    + " which may take a millisecond more each. If GPU memory ran out, lower "
                    + "--gpu-memory-utilization and restart");
            return Optional.empty();
        }
    }
}
