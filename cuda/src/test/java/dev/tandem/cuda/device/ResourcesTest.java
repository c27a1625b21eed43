package dev.tandem.cuda.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class ResourcesTest {
    private final List<String> closed = new ArrayList<>();

    private AutoCloseable resource(String name) {
        return () -> closed.add(name);
    }

    private AutoCloseable failing(Exception failure) {
        return () -> {
            throw failure;
        };
    }

    @Test
    void aResourceThatFailsToCloseDoesNotStopTheOthers() {
        IllegalStateException first = new IllegalStateException("first");
        IOException second = new IOException("second");
        assertThatThrownBy(() -> Resources.closeAll(
                        resource("a"), failing(first), resource("b"), failing(second), resource("c")))
                .isSameAs(first)
                .satisfies(e -> assertThat(e.getSuppressed())
                        .singleElement()
                        .satisfies(s -> assertThat(s).hasRootCause(second)));
        assertThat(closed).containsExactly("a", "b", "c");
    }

    @Test
    void resourcesAreClosedInOrder() {
        Resources.closeAll(List.of(resource("a"), resource("b")));
        assertThat(closed).containsExactly("a", "b");
    }
}
