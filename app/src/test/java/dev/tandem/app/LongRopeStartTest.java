package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.config.ConfigurationException;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** The start says which factors of LongRoPE it takes, and how to take the others. */
class LongRopeStartTest {
    /** A model of 32 tokens with the short factors and 256 with the long ones. */
    private static String said(Optional<Integer> maxModelLen) {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ModelOptions options = new ModelOptions();
        options.use("../cpu/src/test/resources/families/phi4long");
        options.gpu.device = "cpu";
        options.memory.hostKv = Optional.of(new ByteSize(1 << 20));
        options.maxModelLen = maxModelLen;
        StartLog log = new StartLog(new PrintStream(said, true, StandardCharsets.UTF_8), false);
        EngineAssembly.backend(options, log).executor().close();
        return said.toString(StandardCharsets.UTF_8) + log.summary();
    }

    @Test
    void byDefaultTheShortFactorsAndTheirContext() {
        assertThat(said(Optional.empty()))
                .contains("32 tokens per request")
                .contains("short factors, for 32 tokens; --max-model-len takes the long ones, for up to 256")
                .doesNotContain("long factors are used");
    }

    @Test
    void aLongerContextTakesTheLongFactors() {
        assertThat(said(Optional.of(33)))
                .contains("33 tokens per request")
                .contains("LongRoPE's long factors are used for all requests, because --max-model-len is above 32");
        assertThatThrownBy(() -> said(Optional.of(257)))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--max-model-len 257 is more than the 256 tokens that the model allows");
    }
}
