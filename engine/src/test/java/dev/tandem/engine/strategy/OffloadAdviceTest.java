package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.executor.ExecutorLimits;
import org.junit.jupiter.api.Test;

class OffloadAdviceTest {
    private static ExecutorLimits limits(int hostBlocks) {
        return ExecutorLimits.builder()
                .vocabulary(10)
                .contextTokens(1000)
                .blockTokens(4)
                .gpuBlocks(25)
                .hostBlocks(hostBlocks)
                .maxBatchTokens(64)
                .layers(2)
                .kvBytesPerToken(8)
                .overlaps(true)
                .inFlight(8, 100, true)
                .build();
    }

    @Test
    void theCpuIsBusyForAsLongAsAStepTakes() {
        // 2 GPU sequences of 50 take 2 * (10 + 1) = 22; the CPU takes 0.1 per token: 20 for 4 sequences of 50, 25 for 5
        OffloadAdvice advice = OffloadAdvice.of(TestProfile.model(), limits(100), 50);
        assertThat(advice.gpuRows()).isEqualTo(2);
        assertThat(advice.gpuTokens()).isCloseTo(2 / 22.0, within(1e-6));
        assertThat(advice.hostTokens()).isEqualTo(4);
        // two of the four leave the last layer in each step, which takes no longer with 8 more slots
        assertThat(advice.gain()).isCloseTo(1, within(1e-6));
        assertThat(advice.hostBytes()).isCloseTo(4 * 50 * 8 / 2 / 22.0, within(1e-6));
        assertThat(advice.toString()).contains("gains at most 100 %");
    }

    @Test
    void hostMemoryMayHoldFewer() {
        assertThat(OffloadAdvice.of(TestProfile.model(), limits(26), 50).hostTokens())
                .isEqualTo(2);
        OffloadAdvice none = OffloadAdvice.of(TestProfile.model(), limits(3), 50);
        assertThat(none.hostTokens()).isZero();
        assertThat(none.toString()).contains("gains nothing");
    }
}
