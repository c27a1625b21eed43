package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Optional;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Frequency divisors belong to the configuration, so that a check without weights has to read them. */
class GgufHeadTest {
    @ParameterizedTest
    @CsvSource({"rope_freqs.weight, true", "rope_factors_short.weight, true", "rope_factors_long.weight, false"})
    void findsTheDivisorsThatTheConfigurationNeeds(String tensor, boolean wanted) {
        ByteBuffer file = ByteBuffer.allocate(256).order(ByteOrder.LITTLE_ENDIAN);
        file.putInt(0x46554747).putInt(3).putLong(1).putLong(0);
        byte[] name = tensor.getBytes(StandardCharsets.UTF_8);
        file.putLong(name.length).put(name).putInt(1).putLong(48).putInt(0).putLong(64);
        int end = file.position();
        GgufHead head = GgufHead.measure(Arrays.copyOf(file.array(), end)).orElseThrow();
        assertThat(head.bytes()).isEqualTo(end);
        long data = (end + 31) / 32 * 32;
        assertThat(head.ropeFrequencies().map(range -> range.from() == data + 64 && range.bytes() == 192))
                .isEqualTo(wanted ? Optional.of(true) : Optional.empty());
    }
}
