package dev.tandem.cuda.step;

import dev.tandem.cuda.device.Resources;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * An LRU cache that makes a value on first use and keeps the most recently used ones.
 *
 * <p>Owned by: engine thread.
 */
final class Recent<K, V> {
    private final int max;
    private final Runnable awaitUnused;
    private final Consumer<V> free;
    private final LinkedHashMap<K, V> kept = new LinkedHashMap<>(16, 0.75f, true);

    /**
     * @param max values kept
     * @param awaitUnused returns when no value is in use
     * @param free frees a value
     */
    Recent(int max, Runnable awaitUnused, Consumer<V> free) {
        this.max = max;
        this.awaitUnused = awaitUnused;
        this.free = free;
    }

    boolean has(K key) {
        return kept.containsKey(key);
    }

    /** The value of a key, made when there is none. When {@code make} throws, nothing is kept. */
    V get(K key, Function<K, V> make) {
        V found = kept.get(key);
        if (found != null) {
            return found;
        }
        if (kept.size() == max) {
            Map.Entry<K, V> eldest = kept.firstEntry();
            awaitUnused.run();
            kept.remove(eldest.getKey());
            free.accept(eldest.getValue());
        }
        V made = make.apply(key);
        kept.put(key, made);
        return made;
    }

    /** Frees all values; the caller ensures that none is in use. */
    void clear() {
        List<AutoCloseable> all = kept.values().stream()
                .map(value -> (AutoCloseable) () -> free.accept(value))
                .toList();
        kept.clear();
        Resources.closeAll(all);
    }
}
