package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The script of {@code completion}, as bash runs it, and {@code --version}. */
class CompletionCommandTest {
    @TempDir
    Path folder;

    private String complete(String... words) throws IOException, InterruptedException {
        Path script = Files.writeString(
                folder.resolve("script"), CommandRun.of("completion", "bash").out());
        // compopt says on standard error that no completion of an interactive shell is running
        Process bash = new ProcessBuilder(
                        "bash",
                        "--norc",
                        "-c",
                        "source '" + script + "'; COMP_WORDS=(tandem " + String.join(" ", words) + "); COMP_CWORD="
                                + words.length + "; _complete_tandem 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\"")
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        String said = new String(bash.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(bash.waitFor()).as(said).isZero();
        return said;
    }

    @Test
    void bashCompletesCommandsAndOptions() throws IOException, InterruptedException {
        assertThat(complete("gen")).isEqualTo("generate\n");
        assertThat(complete("generate", "--mod")).isEqualTo("--model\n");
        assertThat(complete("config", "ch")).isEqualTo("check\n");
        assertThat(complete("serve", "--max-num-s")).isEqualTo("--max-num-seqs\n");
    }

    @Test
    void anotherShellIsAnsweredWithTheKnownOnes() {
        assertThat(CommandRun.of("completion", "zsh").out())
                .isEqualTo(CommandRun.of("completion", "bash").out());
        assertThat(CommandRun.of("completion", "fish").errors()).contains("fish is not known; use bash or zsh");
    }

    @Test
    void theVersionHasTheCommit() {
        assertThat(CommandRun.of("--version").out())
                .matches("tandem \\d+\\.\\d+\\.\\d+ \\(commit ([0-9a-f]{7,}(-dirty)?|unknown)\\)\n");
    }
}
