package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/**
 * Some seconds of {@link FaultSoak}; {@code -Dtandem.soak.seconds=N} for more, {@code -Dtandem.soak.seed=N} for a seed
 * that failed.
 */
class FaultSoakTest {
    @Test
    void faultsOfOneRequestTouchNoOther() throws InterruptedException {
        FaultSoak soak = new FaultSoak(Long.getLong("tandem.soak.seed", 20_261_124));
        assertThat(soak.run(Long.getLong("tandem.soak.seconds", 5)))
                .as(soak.summary())
                .isEmpty();
        assertThat(soak.unseen()).as(soak.summary()).isEmpty();
        System.out.println(soak.summary());
    }
}
