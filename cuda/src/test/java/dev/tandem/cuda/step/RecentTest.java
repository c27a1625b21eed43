package dev.tandem.cuda.step;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RecentTest {
    private final List<String> log = new ArrayList<>();
    private final Recent<Integer, String> recent =
            new Recent<>(3, () -> log.add("before eviction"), evicted -> log.add("free " + evicted));

    private String get(int key) {
        return recent.get(key, k -> {
            log.add("create " + k);
            return "v" + k;
        });
    }

    @Test
    void theLeastRecentlyUsedValueIsEvicted() {
        get(1);
        get(2);
        get(3);
        assertThat(get(1)).isEqualTo("v1");
        log.clear();
        get(4);
        assertThat(log).containsExactly("before eviction", "free v2", "create 4");
        log.clear();
        get(1);
        get(3);
        get(4);
        assertThat(log).isEmpty();
    }

    @Test
    void aValueThatCannotBeCreatedIsNotCached() {
        try {
            recent.get(1, key -> {
                throw new IllegalStateException("no memory");
            });
        } catch (IllegalStateException e) {
            log.add(e.getMessage());
        }
        assertThat(get(1)).isEqualTo("v1");
        assertThat(log).containsExactly("no memory", "create 1");
    }

    @Test
    void clearingFreesAllValues() {
        get(1);
        get(2);
        recent.clear();
        assertThat(log).containsExactly("create 1", "create 2", "free v1", "free v2");
        recent.clear();
        assertThat(log).hasSize(4);
    }
}
