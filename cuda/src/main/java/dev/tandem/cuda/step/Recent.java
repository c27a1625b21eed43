package dev.tandem.cuda.step;

import dev.tandem.cuda.device.Resources;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * Things that are made when they are first wanted, of which the ones used last are kept.
 *
 * <p>Owned by: engine thread.
 */
final class Recent<K, V> {
    private final int max;
    private final Runnable rest;
    private final Consumer<V> end;
    private final LinkedHashMap<K, V> kept = new LinkedHashMap<>(16, 0.75f, true);

    /**
     * @param max that are kept
     * @param rest returns when none is in use
     * @param end frees one
     */
    Recent(int max, Runnable rest, Consumer<V> end) {
        this.max = max;
        this.rest = rest;
        this.end = end;
    }

    boolean has(K key) {
        return kept.containsKey(key);
    }

    /** When {@code make} throws, nothing is kept of the key. */
    V get(K key, Function<K, V> make) {
        V found = kept.get(key);
        if (found != null) {
            return found;
        }
        if (kept.size() == max) {
            Map.Entry<K, V> eldest = kept.firstEntry();
            rest.run();
            kept.remove(eldest.getKey());
            end.accept(eldest.getValue());
        }
        V made = make.apply(key);
        kept.put(key, made);
        return made;
    }

    /** Frees all; none is in use. */
    void clear() {
        List<AutoCloseable> all = kept.values().stream()
                .map(value -> (AutoCloseable) () -> end.accept(value))
                .toList();
        kept.clear();
        Resources.closeAll(all);
    }
}
