package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;
import picocli.CommandLine.Model.OptionSpec;

/** {@code config show} and {@code config check}, and errors of {@code serve} with a file. */
class ConfigCommandTest {
    @TempDir
    Path folder;

    private Path write(String text) throws IOException {
        return Files.writeString(folder.resolve("tandem.yaml"), text);
    }

    @Test
    void everythingThatIsWrongIsNamedWithItsLine() throws IOException {
        Path file = write("""
                port: 70000
                gpu_memory_utilization: 0.9
                max-num-seqs: 64
                max-num-batched-tokens: 8
                ssl-certfile: cert.pem
                host-kv: much
                dtype: int3
                """);
        CommandRun run = CommandRun.of("config", "check", file.toString());
        assertThat(run.status()).isEqualTo(ExitCode.CANNOT_START);
        assertThat(run.out()).isEmpty();
        assertThat(run.errors().replace(file.toString(), "F").lines().toList())
                .satisfiesExactly(
                        line -> assertThat(line)
                                .isEqualTo("F:1: --port 70000 must lie in [0, 65535]; 0 takes a free one"),
                        line -> assertThat(line).startsWith("F:2: ").endsWith("did you mean gpu-memory-utilization?"),
                        line -> assertThat(line).startsWith("F:4: --max-num-batched-tokens 8, --max-num-seqs 64"),
                        line -> assertThat(line).startsWith("F:5: TLS needs both --ssl-certfile and --ssl-keyfile"),
                        line -> assertThat(line).startsWith("F:6: host-kv: 'much' is not a size"),
                        line -> assertThat(line).startsWith("F:7: --dtype: ").contains("int3"));
    }

    @Test
    void whatShowPrintsIsAFileThatCheckAccepts() throws IOException {
        CommandRun shown = CommandRun.of(
                Map.of("TANDEM_API_KEY", "hush", "TANDEM_IDLE_TIMEOUT", "7"),
                "config",
                "show",
                "it's a model",
                "--no-ui",
                "--strategy",
                "neo",
                "--deviation",
                "room-to-grow=false",
                "--deviation",
                "rotation=true",
                "--host",
                "::1",
                "--allowed-hosts",
                "a,b",
                "--max-body-size",
                "1.5MiB");
        assertThat(shown.errors()).isEmpty();
        assertThat(shown.out()).doesNotContain("hush").contains("# not shown, TANDEM_API_KEY\n");
        Path file = write(shown.out());
        CommandRun checked = CommandRun.of("config", "check", file.toString());
        assertThat(checked.errors()).isEmpty();
        assertThat(checked.out()).matches("\\S+: \\d+ options, nothing is wrong\n");
        CommandRun again = CommandRun.of(Map.of("TANDEM_CONFIG", file.toString()), "config", "show");
        assertThat(values(again)).isEqualTo(values(shown));
        assertThat(again.out()).contains("idle-timeout: 7   ").contains("# " + file + ":");
    }

    /** The lines without the sources, which are comments. */
    private static String values(CommandRun run) {
        return run.out().lines().map(line -> line.replaceFirst(" +# \\S.*", "")).reduce("", (a, b) -> a + b + "\n");
    }

    @Test
    void serveSaysWhereAWrongValueWasSet() throws IOException {
        Path file = write("model: " + folder + "\nmax-model-len: 1\ndevice: cpu\nport: 0\n");
        CommandRun ofFile = CommandRun.of("serve", "--config", file.toString());
        assertThat(ofFile.status()).isEqualTo(ExitCode.CANNOT_START);
        assertThat(ofFile.errors())
                .isEqualTo("tandem: --max-model-len 1 is too small; it must be at least 2 (--max-model-len is set by "
                        + file + ":2)\n");
        CommandRun ofVariable =
                CommandRun.of(Map.of("TANDEM_PORT", "-1", "TANDEM_PROT", "1"), "serve", "--device", "cpu");
        assertThat(ofVariable.errors().lines())
                .containsExactly(
                        "warning: The variable TANDEM_PROT sets no option; did you mean TANDEM_PORT?",
                        "tandem: --port -1 must lie in [0, 65535]; 0 takes a free one (--port is set by TANDEM_PORT)");
        CommandRun wrongType = CommandRun.of(Map.of("TANDEM_PORT", "x"), "serve", "--device", "cpu");
        assertThat(wrongType.status()).isEqualTo(ExitCode.CANNOT_START);
        assertThat(wrongType.errors())
                .isEqualTo("tandem: the variable TANDEM_PORT: port: 'x' is not an int; tandem serve --help describes"
                        + " it\n");
    }

    /** Without a fallback value picocli takes a flag as the opposite of what the file says. */
    @Test
    void everyFlagOfServeWinsOverTheFile() {
        List<OptionSpec> flags = Main.command().getSubcommands().get("serve").getCommandSpec().options().stream()
                .filter(option -> option.typeInfo().isBoolean() && !option.usageHelp() && !option.versionHelp())
                .toList();
        assertThat(flags).hasSizeGreaterThan(5);
        assertThat(flags).allMatch(option -> option.fallbackValue().equals("true"));
    }

    @Test
    void showHasEveryOptionOfServe() {
        CommandLine tandem = Main.command();
        assertThat(names(tandem.getSubcommands().get("config").getSubcommands().get("show")))
                .isEqualTo(names(tandem.getSubcommands().get("serve")));
    }

    private static Set<String> names(CommandLine command) {
        return command.getCommandSpec().optionsMap().keySet();
    }

    @Test
    void aCommandIsNeeded() {
        assertThat(CommandRun.of("config").errors()).contains("show or check", "tandem config --help");
    }
}
