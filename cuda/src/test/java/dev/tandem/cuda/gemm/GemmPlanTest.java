package dev.tandem.cuda.gemm;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.gemm.GemmPlan.Method;
import java.util.Optional;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

class GemmPlanTest {
    private static GemmPlan plan() {
        TreeMap<Integer, Method> methods = new TreeMap<>();
        methods.put(8, Method.GEMV);
        methods.put(64, Method.WGMMA);
        return new GemmPlan(methods, Optional.empty());
    }

    @Test
    void theMethodIsThatOfTheNextLargerMeasuredRowCount() {
        assertThat(plan().method(1)).isEqualTo(Method.GEMV);
        assertThat(plan().method(8)).isEqualTo(Method.GEMV);
        assertThat(plan().method(9)).isEqualTo(Method.WGMMA);
        assertThat(plan().method(65)).isEqualTo(Method.LIBRARY);
        assertThat(new GemmPlan(new TreeMap<>(), Optional.empty()).method(1)).isEqualTo(Method.LIBRARY);
    }

    @Test
    void changingAPlanDoesNotChangeTheOriginal() {
        GemmPlan first = plan();
        GemmPlan second = first.with(5, Method.LIBRARY);
        assertThat(second.method(8)).isEqualTo(Method.LIBRARY);
        assertThat(second.method(64)).isEqualTo(Method.WGMMA);
        assertThat(first.method(8)).isEqualTo(Method.GEMV);
        assertThat(second.choices()).containsExactly(8, 64);
    }

    @Test
    void theCrossoverDecidesIfTheActivationIsFusedForLibraryGemms() {
        assertThat(plan().activates(64))
                .as("Tandem's own kernels always fuse it")
                .isTrue();
        assertThat(plan().activates(1000)).isFalse();
        assertThat(plan().with(SwigluCrossover.ALWAYS).activates(1000)).isTrue();
        assertThat(plan().with(SwigluCrossover.NEVER).activates(1000)).isFalse();
    }

    @Test
    void theTextListsEveryMethod() {
        assertThat(plan().text()).isEqualTo("up to 8 rows gemv, up to 64 rows wgmma");
    }
}
