package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.observe.EngineListener;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class DeferredListenerTest {
    @Test
    void itHandsOnEverythingThatAListenerIsTold() {
        List<String> told = Arrays.stream(EngineListener.class.getDeclaredMethods())
                .filter(method -> method.isDefault() && method.getReturnType() == void.class)
                .filter(method -> !Modifier.isStatic(method.getModifiers()))
                .map(Method::getName)
                .toList();
        List<String> handed = Arrays.stream(DeferredListener.class.getDeclaredMethods())
                .map(Method::getName)
                .toList();
        assertThat(told).isNotEmpty();
        assertThat(handed).containsAll(told);
    }
}
