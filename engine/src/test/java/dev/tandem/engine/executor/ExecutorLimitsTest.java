package dev.tandem.engine.executor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

class ExecutorLimitsTest {
    private static ExecutorLimits.Builder builder() {
        return ExecutorLimits.builder().vocabulary(10).contextTokens(20).maxBatchTokens(8);
    }

    @Test
    void missingValuesAreNamed() {
        assertThatThrownBy(() -> builder().build()).hasMessage("blockTokens is 0; it must be at least 1");
    }

    @Test
    void hostBlocksHaveTheGpusSizeUnlessSet() {
        assertThat(builder().blockTokens(16).build().hostBlockTokens()).isEqualTo(16);
        assertThat(builder().blockTokens(16).hostBlockTokens(64).build().hostBlockTokens())
                .isEqualTo(64);
    }
}
