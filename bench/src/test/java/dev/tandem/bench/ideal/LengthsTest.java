package dev.tandem.bench.ideal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.kv.AttentionSpan;
import java.util.List;
import org.junit.jupiter.api.Test;

class LengthsTest {
    private static final Lengths REQUESTS = Lengths.divisible(1000, 400, 0);

    private static AttentionSpan windows(Integer... ofLayers) {
        return new AttentionSpan(List.of(ofLayers));
    }

    @Test
    void aWindowLimitsWhatRequestsHold() {
        Lengths held = REQUESTS.within(windows(1200));
        // half of the output has a context of 1,000 to 1,200 tokens, the other half of 1,200
        assertThat(held.context()).isEqualTo(1150, within(1e-9));
        assertThat(held.requestsOf().applyAsDouble(11_500)).isEqualTo(10, within(1e-9));
        assertThat(REQUESTS.context()).isEqualTo(1200, within(1e-9));
    }

    @Test
    void aWindowLimitsWhatPromptTokensAttendTo() {
        // the first 500 tokens attend to 250 on average, the others to 500
        assertThat(REQUESTS.within(windows(500)).contextOfPromptToken()).isEqualTo(375, within(1e-9));
        assertThat(REQUESTS.contextOfPromptToken()).isEqualTo(500, within(1e-9));
    }

    /** One layer of three holds all tokens. */
    @Test
    void layersHoldAndAttendToTheirOwnWindows() {
        Lengths held = REQUESTS.within(windows(500, 0, 500));
        assertThat(held.context()).isEqualTo((2 * 500 + 1200) / 3.0, within(1e-9));
        assertThat(held.requestsOf().applyAsDouble(2200)).isEqualTo(3, within(1e-9));
        assertThat(held.contextOfPromptToken()).isEqualTo((2 * 375 + 500) / 3.0, within(1e-9));
        assertThat(held.held(300)).isEqualTo(300);
        assertThat(held.held(800)).isEqualTo(600);
    }

    @Test
    void aWindowAsLongAsTheRequestsChangesNothing() {
        assertThat(REQUESTS.within(windows(1400, 0))).isSameAs(REQUESTS);
    }
}
