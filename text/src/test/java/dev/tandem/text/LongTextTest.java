package dev.tandem.text;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** No text ends the process. Each probe runs in its own process, so that a crash fails one test. */
class LongTextTest {
    private record Outcome(int code, String output) {}

    private static Outcome probe(String... args) throws Exception {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        ProcessBuilder builder = new ProcessBuilder(
                java,
                "-Xmx1g",
                "-XX:-CreateCoredumpOnCrash",
                "-XX:ErrorFile=/dev/null",
                "--enable-native-access=ALL-UNNAMED",
                "-cp",
                System.getProperty("java.class.path"),
                "dev.tandem.text.LongTextProbe");
        builder.command().addAll(List.of(args));
        Process process = builder.redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor(100, TimeUnit.SECONDS)).isTrue();
        return new Outcome(process.exitValue(), output);
    }

    /** Without a limit, 10 million spaces end the process by SIGABRT. */
    @ParameterizedTest
    @ValueSource(strings = {"llama3", "qwen2"})
    void aRunOfSpacesThatTheLibraryCannotProcessIsRefused(String name) throws Exception {
        Outcome outcome =
                probe(name.equals("llama3") ? TokenizerFiles.LLAMA3 : TokenizerFiles.QWEN2, " ", "11000000", "x");
        assertThat(outcome.output())
                .contains("refused: the text has 11000001 characters of ASCII and 0 others; the tokenizer takes at "
                        + "most 33");
        assertThat(outcome.code()).isZero();
    }

    @Test
    void theLongestAllowedRunIsEncoded() throws Exception {
        Outcome outcome = probe(TokenizerFiles.QWEN2, " ", "max", "x");
        assertThat(outcome.output()).contains("2 tokens");
        assertThat(outcome.code()).isZero();
    }
}
