package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/**
 * Runs {@link FaultSoak} for some seconds. {@code -Dtandem.soak.seconds=N} runs it longer; {@code -Dtandem.soak.seed=N}
 * repeats a seed that failed.
 */
class FaultSoakTest {
    @Test
    void faultsOfOneRequestDoNotAffectOthers() throws InterruptedException {
        FaultSoak soak = new FaultSoak(Long.getLong("tandem.soak.seed", 20_261_124));
        assertThat(soak.run(Long.getLong("tandem.soak.seconds", 5)))
                .as(soak.summary())
                .isEmpty();
        assertThat(soak.unseen()).as(soak.summary()).isEmpty();
        System.out.println(soak.summary());
    }
}
